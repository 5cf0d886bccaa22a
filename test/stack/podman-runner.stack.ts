/** Sandboxes of a real Podman with the compiled runner in them: health, sleep, snapshots, limits, secrets and egress. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { SandboxProvider, SandboxSpec } from "../../src/fleet/providers/contract.ts"
import { createDockerProvider } from "../../src/fleet/providers/docker.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { valueOf } from "../fleet/provider-contract.ts"
import { until } from "./kit.ts"
import { type Podman, startPodman } from "./podman.ts"

const root = join(import.meta.dir, "../..")
const machine = process.arch === "arm64" ? "aarch64" : "x86_64"
const xtables = `/usr/lib/${machine}-linux-gnu/xtables`
const IMAGE = "localhost/sandpiper:test"
const TOKEN = "token-of-the-runner-0123456789"
const KEY = "sixteen-characters-or-more"

let podman: Podman
let provider: SandboxProvider

beforeAll(async () => {
  podman = await startPodman()
  await podman.image({
    name: IMAGE,
    programs: [
      "bash",
      "cat",
      "chmod",
      "env",
      "mkdir",
      "rm",
      "setpriv",
      "sh",
      "sleep",
      "iptables",
      "ip6tables",
    ],
    files: {
      "/usr/local/bin/sandpiper": join(root, "dist/sandpiper"),
      [xtables]: xtables,
    },
    startScript: readFileSync(join(root, "start.sh"), "utf8"),
  })
  provider = createDockerProvider({ socket: podman.socket, network: "bridge", clock: systemClock })
}, 120_000)
afterAll(() => podman.stop())

const limit = () => AbortSignal.timeout(60_000)

const specOf = (session: string, change: Partial<SandboxSpec> = {}): SandboxSpec => ({
  session,
  generation: 1,
  name: `sp-${session}-${change.generation ?? 1}`,
  labels: {
    deployment: "runner",
    tenant: "t",
    session,
    generation: String(change.generation ?? 1),
  },
  image: { kind: "image", id: IMAGE },
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 900_000,
  lifeMs: 3_600_000,
  ...change,
  environment: {
    // No hub is there: the runner tries again and its gateway answers.
    DO_WS_URL: "wss://127.0.0.1:9/sessions/s/ws",
    RUNNER_TOKEN: TOKEN,
    SESSION_ID: session,
    JWT_SECRET: KEY,
    SANDPIPER_SERVICES: "none",
    ...change.environment,
  },
})

const statusOf = async (ref: string, deadlineMs = 5000): Promise<number | undefined> => {
  const address = await provider.address(ref, 9000)
  if (address.is !== "ok") return undefined
  try {
    const signal = AbortSignal.timeout(deadlineMs)
    return (await fetch(`${address.value.url}/health`, { signal })).status
  } catch {
    return undefined
  }
}

const startRunner = async (session: string, change: Partial<SandboxSpec> = {}): Promise<string> => {
  const { ref } = valueOf(await provider.create(specOf(session, change), limit()))
  await until(async () => (await statusOf(ref)) === 200, `the runner of ${ref} answers`, 60)
  return ref
}

const shell = async (ref: string, script: string) =>
  valueOf(await provider.exec(ref, { argv: ["bash", "-c", script] }, limit()))

describe("a sandbox of Podman with a runner", () => {
  test("the runner answers /health, sleeps, wakes, and is restored from a snapshot with its files", async () => {
    const ref = await startRunner("life")
    await shell(ref, "printf kept > /workspace/work.txt")
    valueOf(await provider.pause(ref))
    expect(await statusOf(ref, 500)).toBeUndefined()
    valueOf(await provider.resume(ref, specOf("life")))
    await until(async () => (await statusOf(ref)) === 200, "the runner answers after the pause")
    const { id } = valueOf(await provider.snapshot(ref, "disk", limit()))
    valueOf(await provider.terminate(ref))
    const restored = await startRunner("life", { generation: 2, image: { kind: "snapshot", id } })
    expect(await shell(restored, "cat /workspace/work.txt")).toMatchObject({ stdout: "kept" })
    valueOf(await provider.terminate(restored))
    valueOf(await provider.removeSnapshot(id))
    expect(podman.run("images", "--format", "{{.Repository}}")).not.toContain("sandpiper-snapshot")
    expect(podman.run("volume", "ls", "--quiet").trim()).toBe("")
  })

  test("no secret is in what describes the container, in its snapshot, or readable for the agent", async () => {
    const ref = await startRunner("secrets")
    const { id } = valueOf(await provider.snapshot(ref, "disk", limit()))
    for (const text of [podman.run("inspect", ref), podman.run("image", "inspect", id)]) {
      expect(text).not.toContain(TOKEN)
      expect(text).not.toContain(KEY)
    }
    const listed = podman.run(
      "run",
      "--rm",
      "--entrypoint",
      "/bin/sh",
      "--ulimit",
      "nofile=1024:1024",
      "--ulimit",
      "nproc=1024:1024",
      id,
      "-c",
      "ls /run/sandpiper 2>/dev/null; cat /run/sandpiper/environment 2>/dev/null; true",
    )
    expect(listed).not.toContain(TOKEN)
    const asAgent = await shell(
      ref,
      "setpriv --reuid 1000 --regid 1000 --clear-groups cat /run/sandpiper/environment; cat /proc/1/environ",
    )
    expect(asAgent.stdout).not.toContain(TOKEN)
    expect(asAgent.stderr).toContain("Permission denied")
    valueOf(await provider.terminate(ref))
    valueOf(await provider.removeSnapshot(id))
  })

  test("limits of memory, CPU and processes are set in the kernel", async () => {
    const resources = { memoryMiB: 512, cpu: 0.5, pids: 200 }
    const { ref } = valueOf(await provider.create(specOf("limits", { resources }), limit()))
    const { Memory, PidsLimit, NanoCpus } = (
      JSON.parse(podman.run("inspect", ref)) as readonly {
        readonly HostConfig: {
          readonly Memory: number
          readonly PidsLimit: number
          readonly NanoCpus: number
        }
      }[]
    )[0]?.HostConfig ?? { Memory: 0, PidsLimit: 0, NanoCpus: 0 }
    expect([Memory, PidsLimit, NanoCpus]).toEqual([536_870_912, 200, 500_000_000])
    // Whichever hierarchy this machine has, the container sees its own limits.
    const found = await shell(
      ref,
      "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null; true",
    )
    expect(found.stdout).toContain("536870912")
    expect(found.stdout).toContain("200")
    valueOf(await provider.terminate(ref))
  })

  test("a command that reaches its limit is killed with its children", async () => {
    const ref = await startRunner("killed")
    const controller = new AbortController()
    const running = provider.exec(
      ref,
      { argv: ["bash", "-c", "sleep 777 & sleep 777"] },
      controller.signal,
    )
    const sleepers = async () =>
      (await shell(ref, "cat /proc/[0-9]*/cmdline")).stdout.split("777").length - 1
    await until(async () => (await sleepers()) >= 2, "the command runs")
    controller.abort()
    expect(await running).toMatchObject({ is: "unknown" })
    await until(async () => (await sleepers()) === 0, "the command has ended")
    valueOf(await provider.terminate(ref))
  })
})

describe("a sandbox of Podman with an egress policy", () => {
  const asAgent = (script: string) =>
    `setpriv --reuid 1000 --regid 1000 --clear-groups bash -c '${script}' 2>&1`
  /** An address of this machine that containers reach. */
  const GATEWAY = "10.88.0.1"

  test("the network is closed for the agent's user and open for the runner", async () => {
    const server = Bun.serve({ hostname: "0.0.0.0", port: 0, fetch: () => new Response("outside") })
    const direct = `exec 3<>/dev/tcp/${GATEWAY}/${server.port} && echo connected`
    try {
      const open = await startRunner("open")
      expect((await shell(open, asAgent(direct))).stdout).toContain("connected")
      const closed = await startRunner("closed", {
        environment: { SANDBOX_EGRESS: "allow-list", SANDBOX_EGRESS_HOSTS: "example.com" },
      })
      await until(
        async () => !(await shell(closed, asAgent(direct))).stdout.includes("connected"),
        "the packet filter is closed for the agent",
      )
      expect((await shell(closed, direct)).stdout).toContain("connected")
      for (const ref of [open, closed]) valueOf(await provider.terminate(ref))
    } finally {
      await server.stop(true)
    }
  })

  test("an allowed host is reached through the runner's proxy, every other host and port is refused", async () => {
    const asked: string[] = []
    const server = Bun.serve({
      hostname: "0.0.0.0",
      port: 0,
      fetch: ({ url }) => {
        asked.push(new URL(url).pathname)
        return new Response("from the allowed host")
      },
    })
    /** A request as a program of the agent makes it: to the proxy, with the address as its target. */
    const request = (port: number, target: string) =>
      asAgent(
        `exec 3<>/dev/tcp/127.0.0.1/${port} && printf "GET %s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" ${target} >&3 && cat <&3`,
      )
    try {
      // Podman writes this name into /etc/hosts of the container.
      const host = `host.containers.internal:${server.port}`
      const ref = await startRunner("listed", {
        environment: { SANDBOX_EGRESS: "allow-list", SANDBOX_EGRESS_HOSTS: host },
      })
      const logFile = podman
        .run("inspect", "--format", "{{.HostConfig.LogConfig.Path}}", ref)
        .trim()
      const logged = () => readFileSync(logFile, "utf8")
      const proxyPort = () => Number(/"egress.allow-list".*"port":(\d+)/.exec(logged())?.[1])
      await until(() => proxyPort() > 0, "the proxy listens")
      expect(logged()).toContain("egress.enforced")
      const ask = async (target: string) => (await shell(ref, request(proxyPort(), target))).stdout
      expect(await ask(`http://${host}/allowed`)).toContain("from the allowed host")
      expect(await ask(`http://${GATEWAY}:${server.port}/by-address`)).toContain("HTTP/1.1 403")
      expect(await ask("http://refused.example/")).toContain("does not allow refused.example:80")
      expect(await ask(`http://host.containers.internal:1/other-port`)).toContain("HTTP/1.1 403")
      // Without the proxy the same host is not reached.
      const direct = `exec 3<>/dev/tcp/host.containers.internal/${server.port} && echo connected`
      expect((await shell(ref, asAgent(direct))).stdout).not.toContain("connected")
      expect(asked).toEqual(["/allowed"])
      valueOf(await provider.terminate(ref))
    } finally {
      await server.stop(true)
    }
  })
})
