/** The process table, with real processes and with made-up tables. */
import { describe, expect, test } from "bun:test"
import { once } from "node:events"
import { createServer } from "node:net"
import { join } from "node:path"
import { isAlive, parseStat, readProcess } from "../../../src/lib/process-identity.ts"
import {
  carriersOf,
  commandOf,
  descendantsOf,
  endAll,
  listProcesses,
  listenerOf,
  parseListeners,
  signalProcess,
} from "../../../src/runner/host/processes.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { createManualClock } from "../../kit/clock.ts"
import { untilTrue } from "../../kit/until-true.ts"

const numbers = (from: number) => Array.from({ length: 30 }, (_, index) => from + index).join(" ")

describe("/proc/<pid>/stat", () => {
  test("a stat line with spaces and parentheses in the name is parsed", () => {
    const line = `42 (a b) (c) ) S 7 ${numbers(100)}`
    expect(parseStat(line)).toEqual({ pid: 42, parent: 7, startTime: 117, isZombie: false })
  })

  test("a process is a zombie when its last thread has ended", () => {
    const withThreads = (count: number) => {
      const fields = numbers(100).split(" ")
      fields[15] = String(count)
      return parseStat(`42 (x) Z 7 ${fields.join(" ")}`)
    }
    expect(withThreads(1)).toEqual({ pid: 42, parent: 7, startTime: 117, isZombie: true })
    expect(withThreads(0)?.isZombie).toBe(true)
    expect(withThreads(2)?.isZombie).toBe(false)
  })

  test("a malformed stat line gives no process", () => {
    for (const text of ["", "nonsense", "42 (x", "(x) S 1"]) expect(parseStat(text)).toBeUndefined()
  })
})

describe("descendants", () => {
  const row = (pid: number, parent: number) => ({ pid, parent, startTime: pid, isZombie: false })

  test("descendants include grandchildren and no other processes", () => {
    const table = [row(1, 0), row(2, 1), row(3, 2), row(4, 3), row(5, 1)]
    expect(descendantsOf(2, table).map(({ pid }) => pid)).toEqual([3, 4])
  })

  test("a cycle in the process table does not cause an endless loop", () => {
    expect(descendantsOf(2, [row(2, 3), row(3, 2)]).map(({ pid }) => pid)).toEqual([3])
  })
})

describe("listening ports", () => {
  test("only listening sockets count for a port", () => {
    const table = [
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
      "   0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1",
      "   1: 0100007F:1000 0100007F:2000 01 00000000:00000000 00:00000000 00000000     0        0 222 1",
    ].join("\n")
    expect(parseListeners(table, 4096)).toEqual([{ inode: "111", uid: 0 }])
    expect(parseListeners(table, 4097)).toEqual([])
  })

  test("the listener of another user's process is found even if root may not inspect it", async () => {
    if (process.getuid?.() !== 0)
      throw new Error("this test runs a process as another user and needs root")
    // As in a container: root without CAP_SYS_PTRACE.
    const script = `
      const { listensOn } = await import("./src/runner/host/processes.ts")
      const child = Bun.spawn(["perl", "-MIO::Socket::INET", "-e", "$s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1'); $| = 1; print $s->sockport, qq(\\n); sleep 60"], { uid: 65534, gid: 65534, stdout: "pipe" })
      for await (const bytes of child.stdout) {
        const port = Number(new TextDecoder().decode(bytes))
        console.log(listensOn(child.pid, port), listensOn(process.pid, port), listensOn(child.pid, port + 1))
        child.kill("SIGKILL")
        break
      }`
    const drop = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
    const root = Bun.spawn([...drop, process.execPath, "-e", script], {
      cwd: join(import.meta.dir, "../../.."),
      stdout: "pipe",
      stderr: "inherit",
    })
    expect(await new Response(root.stdout).text()).toBe("true false false\n")
  })

  test("the process that listens on a port is found", async () => {
    const server = createServer().listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    const port = typeof address === "object" && address ? address.port : 0
    expect(listenerOf(port)?.pid).toBe(process.pid)
    expect(commandOf(process.pid)).toContain("bun")
    server.close()
    await once(server, "close")
    expect(listenerOf(port)).toBeUndefined()
  })
})

describe("daemons", () => {
  test("a daemon is found by an inherited variable and killed with its children", async () => {
    const value = crypto.randomUUID()
    // Two forks and a new session: it is no longer a descendant.
    const child = Bun.spawn(["sh", "-c", "setsid sh -c '(sleep 300 & sleep 300) & ' & "], {
      env: { PATH: process.env["PATH"] ?? "", TEST_MARK: value },
    })
    await child.exited
    const find = () => carriersOf("TEST_MARK", value, listProcesses())
    await untilTrue(() => find().length >= 2, "the daemon and its child")
    expect(descendantsOf(process.pid, listProcesses()).some((row) => find().includes(row))).toBe(
      false,
    )
    expect(await endAll(find, systemClock)).toBeGreaterThanOrEqual(2)
    expect(find()).toEqual([])
  })
})

describe("a process that starts while others are ended", () => {
  test("a process that shows no environment yet is looked for again and ended", async () => {
    const child = Bun.spawn(["sleep", "300"], { stdout: "ignore", stderr: "ignore" })
    let looks = 0
    const find = () => {
      looks += 1
      const row = readProcess(child.pid)
      return looks < 3 || !row || row.isZombie ? [] : [row]
    }
    expect(await endAll(find, systemClock, () => looks < 3)).toBe(1)
    await child.exited
    expect(child.signalCode).toBe("SIGKILL")
  })

  test("a program that never shows an environment does not hold up the end of others", async () => {
    const clock = createManualClock()
    let ended: number | undefined
    const ending = endAll(
      () => [],
      clock,
      () => true,
    ).then((count) => void (ended = count))
    await untilTrue(() => {
      clock.advance(20)
      return ended !== undefined
    }, "the end")
    await ending
    expect(ended).toBe(0)
    expect(clock.now()).toBeLessThan(5000)
  })
})

describe("reused pids", () => {
  test("a process with a reused pid is not signalled", () => {
    const self = readProcess(process.pid)
    if (!self) throw new Error("no /proc")
    expect(isAlive(self)).toBe(true)
    const earlier = { ...self, startTime: self.startTime - 1 }
    expect(isAlive(earlier)).toBe(false)
    signalProcess(earlier, "SIGKILL")
    expect(isAlive(self)).toBe(true)
  })
})
