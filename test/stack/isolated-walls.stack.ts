/** What a process in an isolated local sandbox sees and reaches, and what is left of it afterwards. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { networkInterfaces } from "node:os"
import { dirname, join } from "node:path"
import { readyPipeOf } from "../../src/fleet/providers/local-box.ts"
import { namespaceInit } from "../../src/fleet/providers/local-processes.ts"
import { type IsolatedPlace, limit, openIsolated, specOf } from "./isolated-kit.ts"
import { until } from "./kit.ts"

let place: IsolatedPlace
let secretServer: ReturnType<typeof Bun.serve>
let sharedServer: ReturnType<typeof Bun.serve>
let first = ""
let second = ""

const answers = (hostname: string, text: string) =>
  Bun.serve({ hostname, port: 0, fetch: () => new Response(text) })
const fetchIn = (ref: string, url: string) =>
  place.shell(
    ref,
    `python3 -c 'import urllib.request,sys; print(urllib.request.urlopen("${url}", timeout=20).read().decode())'`,
  )

beforeAll(async () => {
  secretServer = answers("0.0.0.0", "of the host")
  sharedServer = answers("127.0.0.1", "shared with sandboxes")
  place = await openIsolated({ hostPorts: [sharedServer.port ?? 0] })
  first = await place.start("first")
  second = await place.start("second")
})
afterAll(async () => {
  await place.end()
  await secretServer.stop(true)
  await sharedServer.stop(true)
})

const commandLineOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")
  } catch {
    return ""
  }
}
const pids = () => readdirSync("/proc").filter((name) => /^\d+$/.test(name))
/** The first process of a sandbox: the runner's place. */
const initOf = (ref: string, { root } = place): number => {
  const text = readFileSync(join(root, "fleet/boxes", ref, "box.json"), "utf8")
  const box = JSON.parse(text) as { readonly process: { readonly pid: number } }
  return namespaceInit(box.process.pid) ?? 0
}
/** Command lines of all processes of this machine. */
const commandLines = (): string => pids().map(commandLineOf).join("\n")

describe("files", () => {
  test("a sandbox sees neither the files of another one nor the state of the fleet", async () => {
    await place.shell(second, "echo of-the-second > /workspace/only-there.txt")
    writeFileSync(join(place.root, "of-the-fleet.txt"), "x")
    const seen = await place.shell(
      first,
      `find / -xdev \\( -name only-there.txt -o -name of-the-fleet.txt -o -name box.json \\) 2>/dev/null; ls ${place.root}/fleet /root /home; cat /etc/shadow /workspace/only-there.txt`,
    )
    expect(seen.text).not.toContain("of-the-second")
    expect(seen.text).not.toContain("of-the-fleet")
    expect(seen.text).not.toContain("box.json")
    expect(seen.text).not.toContain("root:*")
    expect(seen.text).toContain("/etc/shadow: No such file")
    expect(seen.text).toContain(`cannot access '${place.root}/fleet'`)
  })

  test("a sandbox can change its own disk, but neither /usr nor its program", async () => {
    const own = await place.shell(
      first,
      "echo x > /workspace/a && mkdir /opt/own && echo y > /tmp/own && rmdir /srv",
    )
    expect(own).toEqual({ code: 0, text: "" })
    // Programs of the runner read it.
    expect((await place.shell(first, "echo y > /etc/own")).code).not.toBe(0)
    expect((await place.shell(first, "touch /usr/x")).code).not.toBe(0)
    expect((await place.shell(first, `echo x > ${place.root}/web-server`)).code).not.toBe(0)
    expect(existsSync("/opt/own")).toBe(false)
  })

  test("deleted and changed files stay so through two snapshots", async () => {
    const ref = await place.start("layers")
    await place.shell(ref, "cd /workspace; echo 1 > kept; echo 1 > deleted; mkdir d; echo 1 > d/x")
    const one = await place.provider.snapshot(ref, "disk", limit())
    const firstId = one.is === "ok" ? one.value.id : ""
    await place.provider.terminate(ref)
    const again = await place.start("layers", {
      generation: 2,
      image: { kind: "snapshot", id: firstId },
    })
    await place.shell(
      again,
      "cd /workspace; echo 2 > kept; rm deleted; rm -r d; mkdir d; echo 2 > d/y",
    )
    const two = await place.provider.snapshot(again, "disk", limit())
    const secondId = two.is === "ok" ? two.value.id : ""
    await place.provider.terminate(again)
    // The second snapshot needs the layer of the first one, which its removal must not delete.
    await place.provider.removeSnapshot(firstId)
    const last = await place.start("layers", {
      generation: 3,
      image: { kind: "snapshot", id: secondId },
    })
    const files = await place.shell(last, "cd /workspace; cat kept; find . -type f | sort")
    expect(files.text).toBe("2\n./d/y\n./kept\n")
    await place.provider.terminate(last)
    await place.provider.removeSnapshot(secondId)
    expect(readdirSync(join(place.root, "fleet/isolated/layers"))).toEqual(["base"])
  })
})

describe("the programs of the runner", () => {
  /** A library that the agent has put into a process is in the list of its memory. */
  const LIBRARY = "/workspace/of-the-agent.so"
  const copyLibrary = `cp -L /usr/lib/$(uname -m)-linux-gnu/libm.so.6 ${LIBRARY}`
  const stateOf = async (ref: string) => {
    const seen = await place.provider.look(ref)
    return seen.is === "ok" ? seen.value.state : seen.is
  }

  test("an agent that writes the files of the loader gets no library into the next process", async () => {
    const ref = await place.start("loader")
    for (const attempt of [
      `echo ${LIBRARY} > /etc/ld.so.preload`,
      "rm -f /etc/ld.so.preload",
      "mv /etc /moved",
      "mv /lib64 /moved",
      "rm -f /lib64",
      "mv /lib /moved",
      "mv /bin /moved",
      "echo 127.0.0.1 model.example > /etc/hosts",
    ]) {
      const tried = await place.shell(ref, `${copyLibrary}; ${attempt}`)
      expect([attempt, tried.code === 0]).toEqual([attempt, false])
    }
    const next = await place.shell(ref, "cat /proc/self/maps; ls -d /etc/hosts /lib64/ld-*")
    expect(next.text).toContain("libc.so.6")
    expect(next.text).not.toContain(LIBRARY)
    expect(next.code).toBe(0)
    await place.provider.terminate(ref)
  })

  test("an agent cannot put another program at the path of the runner's", async () => {
    const ref = await place.start("program")
    const program = join(place.root, "web-server")
    for (const attempt of [
      `rm -f ${program}`,
      `mv ${place.root} ${place.root}-moved`,
      `mv ${dirname(place.root)} /moved`,
    ]) {
      const tried = await place.shell(ref, attempt)
      expect([attempt, tried.code === 0]).toEqual([attempt, false])
    }
    expect(await place.shell(ref, `echo x > ${place.root}/own`)).not.toMatchObject({ code: 0 })
    expect(await place.shell(ref, `cat ${program}`)).toMatchObject({
      code: 0,
      text: expect.stringContaining("http.server"),
    })
    await place.provider.terminate(ref)
  })

  test("a command of the fleet has no secret of the runner in its environment, which the agent could read", async () => {
    const environment = { SESSION_ID: "env", RUNNER_TOKEN: "secret-of-the-runner" }
    const ref = await place.start("env", { environment })
    const ofTheProgram = () => readFileSync(`/proc/${initOf(ref)}/environ`, "utf8")
    await until(() => ofTheProgram().includes("secret-of-the-runner"), "the sandbox's program")
    const seen = await place.shell(ref, "env")
    expect(seen.text).toContain("SESSION_ID=env")
    expect(seen.text).toContain("SANDPIPER_STATE_DIR=")
    expect(seen.text).not.toContain("secret-of-the-runner")
    await place.provider.terminate(ref)
  })

  test("what an agent has put in the place of a mount point is not used at the next start", async () => {
    const ref = await place.start("prepared")
    await place.shell(ref, copyLibrary)
    process.kill(initOf(ref), "SIGKILL")
    await until(async () => (await stateOf(ref)) === "stopped", "the end of the sandbox")
    // As an agent could leave its disk when nothing is mounted on it.
    const upper = join(place.root, "fleet/boxes", ref, "disk/upper")
    const evil = join(upper, "workspace/evil")
    const folder = join(upper, place.root)
    for (const path of ["etc/ld.so.preload", "etc/ld.so.cache", "lib64"])
      rmSync(join(upper, path), { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(evil)
    writeFileSync(join(upper, "workspace/preload"), `${LIBRARY}\n`)
    writeFileSync(join(evil, "web-server"), "#!/bin/sh\nexec sleep 7654399\n", { mode: 0o755 })
    symlinkSync("../workspace/preload", join(upper, "etc/ld.so.preload"))
    symlinkSync("/workspace/none", join(upper, "etc/ld.so.cache"))
    symlinkSync("workspace/evil", join(upper, "lib64"))
    symlinkSync("../workspace/evil", folder)
    const resumed = await place.provider.resume(ref, { idleMs: 1, lifeMs: 1 })
    expect(resumed).toMatchObject({ is: "ok" })
    const seen = await place.shell(
      ref,
      `tr '\\0' ' ' </proc/1/cmdline; cat /proc/self/maps; stat -c '%F %n' /lib64 ${place.root} /etc/ld.so.preload`,
    )
    expect(seen.text).toContain("http.server")
    expect(seen.text + readFileSync(`/proc/${initOf(ref)}/maps`, "utf8")).not.toContain(LIBRARY)
    expect(seen.text).toContain("directory /lib64")
    expect(seen.text).toContain(`directory ${place.root}`)
    expect(seen.text).toContain("regular empty file /etc/ld.so.preload")
    expect(await place.shell(ref, `mv ${place.root} /moved`)).not.toMatchObject({ code: 0 })
    await place.provider.terminate(ref)
  })
})

describe("the runner's user", () => {
  const STATE = "/var/lib/sandpiper"
  const upperOf = (ref: string) => join(place.root, "fleet/boxes", ref, "disk/upper")

  test("an agent reads and changes nothing of the runner's state, and ends no process of the runner", async () => {
    const ref = await place.start("state")
    const upper = upperOf(ref)
    mkdirSync(join(upper, STATE), { recursive: true })
    const state = join(upper, STATE, "state.db")
    writeFileSync(state, "outbox")
    const init = initOf(ref)
    for (const attempt of [
      `cat ${STATE}/state.db`,
      `echo memory-write >> ${STATE}/state.db`,
      `mv ${STATE} /moved`,
      "mv /var /moved",
      "mv /var/lib /moved",
      "mv /root /moved",
      "echo x > /root/.gitconfig",
      "echo x > /etc/gitconfig",
      "echo agent:x:0:0::/: > /etc/passwd",
      "kill -KILL 1",
      "cat /proc/1/environ",
      "setpriv --reuid 0 true",
      "unshare --user true",
    ]) {
      const tried = await place.shell(ref, attempt)
      expect([attempt, tried.code === 0]).toEqual([attempt, false])
    }
    expect(readFileSync(state, "utf8")).toBe("outbox")
    expect(initOf(ref)).toBe(init)
    const status = readFileSync(`/proc/${init}/status`, "utf8")
    // chown, dac_override, fowner, fsetid, kill, setgid, setuid and sys_ptrace.
    expect(status).toMatch(/^CapEff:\t00000000000800fb$/m)
    await place.provider.terminate(ref)
  })

  test("the disk of a sandbox of one user becomes the agent's, without what it had left for the runner's programs", async () => {
    const ref = await place.start("former")
    const upper = upperOf(ref)
    await place.shell(
      ref,
      "mkdir /workspace/folder; echo kept > /workspace/folder/file; touch /opt/own",
    )
    const saved = await place.provider.snapshot(ref, "disk", limit())
    const id = saved.is === "ok" ? saved.value.id : ""
    await place.provider.terminate(ref)
    expect(existsSync(upper)).toBe(false)
    // As an earlier version has left it: all files are of one user.
    const layer = join(place.root, "fleet/isolated/layers", id)
    mkdirSync(join(layer, STATE), { recursive: true })
    writeFileSync(join(layer, STATE, "state.db"), "outbox")
    mkdirSync(join(layer, "root"), { recursive: true })
    writeFileSync(join(layer, "root/.gitconfig"), "of the agent")
    writeFileSync(join(layer, "etc/gitconfig"), "of the agent")
    Bun.spawnSync(["chown", "-hR", "1700009000:1700009000", layer])
    const again = await place.start("former", { generation: 2, image: { kind: "snapshot", id } })
    const seen = await place.shell(
      again,
      "cd /workspace; stat -c '%U %n' . folder folder/file /opt/own /home/agent /var/lib/sandpiper /etc /root /tmp; echo more >> folder/file && cat folder/file; ls /etc/gitconfig",
    )
    expect(seen.text.split("\n").slice(0, 11)).toEqual([
      "agent .",
      "agent folder",
      "agent folder/file",
      "agent /opt/own",
      "agent /home/agent",
      "root /var/lib/sandpiper",
      "root /etc",
      "root /root",
      "root /tmp",
      "kept",
      "more",
    ])
    expect(seen.text).toContain("'/etc/gitconfig': No such file")
    expect((await place.shell(again, `cat ${STATE}/state.db`)).code).not.toBe(0)
    expect(existsSync(join(upperOf(again), "root/.gitconfig"))).toBe(false)
    await place.provider.terminate(again)
    await place.provider.removeSnapshot(id)
  })
})

describe("processes", () => {
  test("a sandbox sees its own processes only, and is without rights on this machine", async () => {
    await place.shell(second, "setsid sleep 7654321 >/dev/null 2>&1 & true")
    await until(() => commandLines().includes("sleep 7654321"), "the process of the second sandbox")
    const seen = await place.shell(
      first,
      "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; id -u; grep CapEff /proc/self/status",
    )
    expect(seen.text).not.toContain("7654321")
    expect(seen.text).toContain("http.server")
    expect(seen.text).toMatch(/^1000$/m)
    expect(seen.text).toMatch(/CapEff:\s+0000000000000000/)
    for (const attempt of [
      "unshare --user true",
      "mount -t tmpfs tmpfs /tmp",
      "mknod /tmp/x b 8 0",
    ])
      expect((await place.shell(first, attempt)).code).not.toBe(0)
  })

  test("the processes belong to an unused user of this machine", () => {
    const status = readFileSync(`/proc/${initOf(first)}/status`, "utf8")
    expect(status).toMatch(/^Uid:\t1700009000\t1700009000\t1700009000/m)
  })

  test("a terminate ends every process, also one in a process session of its own", async () => {
    const ref = await place.start("daemons")
    await place.shell(ref, "setsid -f sleep 7654322 >/dev/null 2>&1 </dev/null; true")
    await until(() => commandLines().includes("sleep 7654322"), "the daemon")
    expect(await place.provider.terminate(ref)).toMatchObject({ is: "ok" })
    expect(commandLines()).not.toContain("sleep 7654322")
    expect(commandLines()).not.toContain(`boxes/${ref}/`)
  })

  test("a pause stops all processes, and they continue after a resume", async () => {
    const ref = await place.start("pause")
    const counted = async () => Number((await place.shell(ref, "wc -l < /workspace/beats")).text)
    const BEATS =
      "setsid -f sh -c 'while :; do echo >> /workspace/beats; sleep 0.02; done' >/dev/null 2>&1"
    await place.shell(ref, BEATS)
    const beats = join(place.root, "fleet/boxes", ref, "disk/upper/workspace/beats")
    const size = () => (existsSync(beats) ? readFileSync(beats).length : 0)
    await until(() => size() > 2, "the first beats")
    await place.provider.pause(ref)
    const frozen = size()
    // A loop that beats as often shows that the first one would have continued.
    const elsewhere = await place.start("beats")
    const clock = join(place.root, "fleet/boxes", elsewhere, "disk/upper/workspace/beats")
    await place.shell(elsewhere, BEATS)
    await until(() => existsSync(clock) && readFileSync(clock).length > 10, "beats of another box")
    expect(size()).toBe(frozen)
    await place.provider.terminate(elsewhere)
    await place.provider.resume(ref, { idleMs: 1, lifeMs: 1 })
    await until(() => size() > frozen, "beats after the resume")
    expect(await counted()).toBeGreaterThan(0)
    await place.provider.terminate(ref)
  })
})

describe("network", () => {
  test("the server of a sandbox is reached at its address, and not from another sandbox", async () => {
    const told = await place.provider.address(second, 9000)
    const url = told.is === "ok" ? told.value.url : ""
    const reached = async () => {
      try {
        return (await fetch(url)).status === 200
      } catch {
        return false
      }
    }
    await until(reached, "the server of the second sandbox")
    expect((await fetchIn(second, url)).code).toBe(0)
    const other = await fetchIn(first, url)
    expect(other.code).not.toBe(0)
    expect(other.text).toContain("refused")
  })

  test("ports of this machine do not exist in a sandbox, except those that are shared", async () => {
    const shared = await fetchIn(first, `http://127.0.0.1:${sharedServer.port}/`)
    expect(shared).toEqual({ code: 0, text: "shared with sandboxes\n" })
    const addresses = Object.values(networkInterfaces()).flatMap((list) =>
      (list ?? []).filter(({ family }) => family === "IPv4").map(({ address }) => address),
    )
    expect(addresses).toContain("127.0.0.1")
    for (const address of addresses) {
      // The request stays in the sandbox's own network: each address of this machine is one of the sandbox's, too.
      expect((await place.shell(first, `ip route get ${address}`)).text).toStartWith("local ")
      const { code, text } = await fetchIn(first, `http://${address}:${secretServer.port}/`)
      expect(code).not.toBe(0)
      expect(text).not.toContain("of the host")
    }
  })
})

test("sandboxes that share the network of this machine have no screen, which would be one for all", async () => {
  const shared = await openIsolated({ isolation: { network: "shared" } })
  try {
    const environment = { SESSION_ID: "screen", SANDPIPER_SERVICES: "all" }
    const ref = await shared.start("screen", { environment })
    const servicesOf = () =>
      readFileSync(`/proc/${initOf(ref, shared)}/environ`, "utf8")
        .split("\0")
        .filter((variable) => variable.startsWith("SANDPIPER_SERVICES="))
    await until(() => servicesOf().length > 0, "the sandbox's program")
    expect(servicesOf()).toEqual(["SANDPIPER_SERVICES=vscode,ttyd"])
  } finally {
    await shared.end()
  }
})

describe("pasta beside a sandbox", () => {
  const mountsOf = (ref: string) => join(place.root, "fleet/boxes", ref, "mounts")
  const pastaOf = (ref: string): readonly number[] =>
    pids()
      .filter((pid) => {
        const text = commandLineOf(pid)
        return text.startsWith("pasta") && text.includes(readyPipeOf({ mounts: mountsOf(ref) }))
      })
      .map(Number)
  const stateOf = async (ref: string) => {
    const seen = await place.provider.look(ref)
    return seen.is === "ok" ? seen.value.state : seen.is
  }

  test("a sandbox whose pasta was killed is stopped, and a resume brings its network back", async () => {
    const ref = await place.start("cut")
    const [pid = 0, ...more] = pastaOf(ref)
    expect(more).toEqual([])
    process.kill(pid, "SIGKILL")
    await until(async () => (await stateOf(ref)) === "stopped", "the end of the sandbox")
    expect(await place.provider.resume(ref, { idleMs: 1, lifeMs: 1 })).toMatchObject({ is: "ok" })
    const shared = await fetchIn(ref, `http://127.0.0.1:${sharedServer.port}/`)
    expect(shared).toEqual({ code: 0, text: "shared with sandboxes\n" })
    await place.provider.terminate(ref)
    expect(pastaOf(ref)).toEqual([])
  })

  test("a sandbox whose program was killed is stopped, and its pasta ends", async () => {
    const ref = await place.start("ended")
    const text = readFileSync(join(mountsOf(ref), "../box.json"), "utf8")
    const box = JSON.parse(text) as { readonly process: { readonly pid: number } }
    const init = namespaceInit(box.process.pid)
    expect(init).toBeDefined()
    process.kill(init ?? 0, "SIGKILL")
    await until(async () => (await stateOf(ref)) === "stopped", "the end of the sandbox")
    await until(() => pastaOf(ref).length === 0, "the end of pasta")
    await place.provider.terminate(ref)
  })

  test("a sandbox whose launcher was killed starts again with the same port", async () => {
    const ref = await place.start("launcher")
    const text = readFileSync(join(mountsOf(ref), "../box.json"), "utf8")
    const box = JSON.parse(text) as { readonly process: { readonly pid: number } }
    process.kill(box.process.pid, "SIGKILL")
    await until(async () => (await stateOf(ref)) === "stopped", "the end of the launcher")
    expect(await place.provider.resume(ref, { idleMs: 1, lifeMs: 1 })).toMatchObject({ is: "ok" })
    expect(pastaOf(ref)).toHaveLength(1)
    await place.provider.terminate(ref)
    expect(pastaOf(ref)).toEqual([])
  })
})

describe("a killed fleet", () => {
  test("the sandbox of a killed fleet goes on, another process ends it, and nothing stays mounted", async () => {
    const script = `
      import { openIsolated } from ${JSON.stringify(join(import.meta.dir, "isolated-kit.ts"))}
      const place = await openIsolated()
      const ref = await place.start("orphan")
      process.stdout.write(JSON.stringify({ root: place.root, ref }) + "\\n")
      await new Promise(() => {})`
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" })
    const reader = child.stdout.getReader()
    const line = new TextDecoder().decode((await reader.read()).value)
    const { root, ref } = JSON.parse(line) as { readonly root: string; readonly ref: string }
    onTestFinished(() => rmSync(root, { recursive: true, force: true }))
    child.kill("SIGKILL")
    await child.exited
    const { createLocalProvider } = await import("../../src/fleet/providers/local.ts")
    const { probeMachine } = await import("../../src/fleet/providers/local-machine.ts")
    const { systemClock } = await import("../../src/lib/clock.ts")
    const { isolation } = await probeMachine(join(root, "fleet", "probe"))
    if (!isolation) throw new Error("this machine has no isolation")
    const self = join(root, "web-server")
    const next = createLocalProvider({
      root: join(root, "fleet"),
      self: [self],
      clock: systemClock,
      isolated: { isolation, programs: [self], variables: {}, hostPorts: () => [] },
    })
    expect(await Array.fromAsync(next.list({ deployment: "d" }))).toMatchObject([
      { ref, state: "running" },
    ])
    const result = await next.exec(ref, { argv: ["hostname"] }, limit())
    expect(result).toMatchObject({ value: { stdout: "sandbox\n" } })
    expect(await next.terminate(ref)).toMatchObject({ is: "ok" })
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(root)
    expect(commandLines()).not.toContain(root)
    expect(existsSync(join(root, "fleet/boxes", ref))).toBe(false)
  })

  test("a sandbox that cannot start is refused with the reason, and leaves nothing", async () => {
    const volumes = [{ name: "v", path: "/proc/volume" }]
    const made = await place.provider.create(specOf("bad", { volumes }), limit())
    expect(made).toMatchObject({ is: "refused" })
    expect(JSON.stringify(made)).toContain("bwrap")
    expect(await place.provider.look("sp-bad-1")).toEqual({ is: "missing" })
    expect(commandLines()).not.toContain("sp-bad-1")
  })
})
