/** The texts by which an isolated sandbox is started, and the limits of its cgroup. */
import { describe, expect, test } from "bun:test"
import {
  boxArguments,
  type BoxPlan,
  exportScript,
  launchCommand,
  mountPoints,
  mountTable,
} from "../../../src/fleet/providers/local-box.ts"
import { limitFiles, ownPaths } from "../../../src/fleet/providers/local-cgroups.ts"
import { loopbackPorts } from "../../../src/fleet/providers/local-isolated.ts"

const plan: BoxPlan = {
  mounts: "/var/lib/it's/mounts",
  disk: "/var/lib/it's/disk",
  diskKind: "overlay",
  layers: ["/layers/second", "/layers/first"],
  binds: [{ source: "/opt/tool", target: "/opt/tool", isDirectory: false, isReadOnly: true }],
  network: { inbound: [4001], outbound: [4002, 4003], isDirect: true },
  becomes: 1_700_000_000,
  users: "one",
  environment: { RUNNER_TOKEN: "secret-token", LD_PRELOAD: "/workspace/evil.so" },
  cwd: "/workspace",
  command: ["/opt/tool", "run"],
}

describe("the start of an isolated sandbox", () => {
  test("the command line contains no variable of the sandbox", () => {
    const text = launchCommand(plan).join(" ")
    expect(text).not.toContain("secret-token")
    expect(text).not.toContain("LD_PRELOAD")
    expect(boxArguments(plan)).toContain("--clearenv\0--setenv\0RUNNER_TOKEN\0secret-token\0")
  })

  test("as root, the user is changed before pasta and bubblewrap run", () => {
    const script = launchCommand(plan).at(-1) ?? ""
    const order = ["setpriv", "--reuid", "1700000000", "--clear-groups", "bwrap --args 3", "pasta"]
    const places = order.map((word) => script.indexOf(word))
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(places).not.toContain(-1)
  })

  test("without root, nothing changes the user", () => {
    const command = launchCommand({ ...plan, becomes: undefined })
    expect(command.join(" ")).toContain("exec pasta")
    expect(command.join(" ")).not.toContain("setpriv")
  })

  test("as root, the two users of a sandbox are written before pasta runs and before its disk is mounted", () => {
    const script = launchCommand({ ...plan, users: "two" }).at(-1) ?? ""
    expect(script).toContain("0 1700000000 1\\n1000 1700000001 1\\n")
    const order = ["--keep-caps", "mapped", "overlay", "max_user_namespaces", "bwrap --args 3"]
    const places = order.map((word) => script.indexOf(word))
    expect(places).not.toContain(-1)
    expect(script.indexOf("/uid_map")).toBeLessThan(script.lastIndexOf("exec setpriv"))
  })

  test("a runner of its own user has no right to mount or to change the network", () => {
    const words = boxArguments({ ...plan, users: "two" }).split("\0")
    const rights = words.filter((_, at) => words[at - 1] === "--cap-add")
    expect(words).toContain("--cap-drop")
    expect(rights).not.toContain("CAP_SYS_ADMIN")
    expect(rights).not.toContain("CAP_NET_ADMIN")
    expect(words).not.toContain("--unshare-user")
  })

  test("paths with quotes stay one word of the script", () => {
    const [, ...rest] = launchCommand({ ...plan, becomes: undefined, network: undefined })
    const script = rest.at(-1) ?? ""
    const { stdout } = Bun.spawnSync([
      "/bin/sh",
      "-c",
      `mount() { for a in "$@"; do echo "[$a]"; done; }; ${script.split("\n").find((one) => one.includes("/var/lib")) ?? ""}`,
    ])
    expect(stdout.toString().split("\n")).toContain("[/var/lib/it's/mounts.fstab]")
  })

  test("one process makes all mounts but the disk, and paths with spaces and backslashes stay one field of its table", () => {
    const source = "/srv/a b\\c\td"
    const volume = { source, target: "/workspace", isDirectory: true, isReadOnly: false }
    const lines = mountTable({ ...plan, binds: [...plan.binds, volume] })
      .trimEnd()
      .split("\n")
    expect(lines).toEqual([
      "/var/lib/it's/mounts /mnt none bind 0 0",
      "/var/lib/it's/disk /mnt/disk none bind 0 0",
      "/layers/second /mnt/l0 none bind 0 0",
      "/layers/first /mnt/l1 none bind 0 0",
      "/opt/tool /mnt/b0 none bind 0 0",
      String.raw`/srv/a\040b\134c\011d /mnt/b1 none bind 0 0`,
      "tmpfs /dev/net tmpfs mode=755,size=64k 0 0",
    ])
    const programs = launchCommand(plan)
      .join("\n")
      .match(/(?<!-)\b(?:mount|mkdir|touch) -/g)
    expect(programs).toEqual(["mount -", "mount -"])
  })

  test("every mount of the table has a mount point of its kind", () => {
    const folder = { ...plan.binds[0], isDirectory: true } as BoxPlan["binds"][number]
    const points = mountPoints({ ...plan, binds: [...plan.binds, folder] })
    expect(Object.keys(points.files)).toEqual(["empty", "hosts", "calls", "b0"])
    expect(points.directories).toEqual(["root", "disk", "devices", "l0", "l1", "b1"])
  })

  test("only the listed ports of loopback lead in and out, and the gateway address leads nowhere", () => {
    const text = launchCommand({ ...plan, becomes: undefined }).join(" ")
    expect(text).toContain("-t 127.0.0.1/4001 -u none -T 4002,4003 -U none")
    expect(text).toContain("--no-map-gw")
    expect(text).toContain("--config-net")
  })

  test("with a network policy the interface is not configured", () => {
    const network = { inbound: [4001], outbound: [4002], isDirect: false }
    const text = launchCommand({ ...plan, becomes: undefined, network }).join(" ")
    expect(text).toContain("--no-dhcp")
    expect(text).not.toContain("--config-net")
  })

  test("a variable with a zero byte is refused", () => {
    expect(() => boxArguments({ ...plan, environment: { A: "x\0--bind\0/\0/" } })).toThrow("zero")
  })

  test("passwords and host keys of this machine are not among the files of /etc", () => {
    const words = boxArguments(plan).split("\0")
    for (const name of ["/etc", "/etc/shadow", "/etc/ssh", "/etc/sudoers", "/root", "/home", "/"])
      expect(words.filter((word, at) => word === name && /bind/.test(words[at - 1] ?? ""))).toEqual(
        [],
      )
  })

  test("variables of a command survive quotes and new lines", () => {
    const value = `a'b"c$(d)\ne`
    const { stdout } = Bun.spawnSync(["/bin/sh", "-c", '. /dev/stdin; printf %s "$VALUE"'], {
      stdin: new TextEncoder().encode(exportScript({ VALUE: value })),
    })
    expect(stdout.toString()).toBe(value)
  })
})

describe("limits of a sandbox", () => {
  test("each version of cgroups has its files", () => {
    const resources = { memoryMiB: 512, pids: 100, cpu: 1.5 }
    expect(limitFiles(2, resources)).toEqual([
      ["memory", "memory.max", "536870912"],
      ["memory", "memory.swap.max", "0"],
      ["pids", "pids.max", "100"],
      ["cpu", "cpu.max", "150000 100000"],
    ])
    expect(limitFiles(1, resources)).toEqual([
      ["memory", "memory.limit_in_bytes", "536870912"],
      ["pids", "pids.max", "100"],
      ["cpu", "cpu.cfs_quota_us", "150000"],
    ])
    expect(limitFiles(2, {})).toEqual([])
  })

  test("the own path is read for both versions", () => {
    const paths = ownPaths("4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/user.slice\n")
    expect(paths.get("memory")).toBe("/a/b")
    expect(paths.get("cpu")).toBe("/c")
    expect(paths.get("")).toBe("/user.slice")
  })
})

test("ports are taken from URLs of loopback only", () => {
  const urls = ["ws://127.0.0.1:4000/x", "http://localhost:11434", "https://example.com:8443", "x"]
  expect(loopbackPorts([...urls, undefined, "http://127.evil.example:1"])).toEqual([4000, 11_434])
})
