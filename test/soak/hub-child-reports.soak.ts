/** Twenty child sessions that work and end while links are cut at random: their parent gets every end once. */
import { Database } from "bun:sqlite"
import { expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startLocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import type { Snapshot } from "../../src/wire/clients/conversation.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { untilEqual, untilTrue } from "../kit/until-true.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"
import { freePort } from "../kit/free-port.ts"
import { silentLog } from "../kit/log.ts"
import { startTcpProxy } from "../kit/tcp-proxy.ts"

const CHILDREN = 20

const idOf = ({ messageId }: { readonly messageId: string }): string => messageId

interface Host {
  readonly url: string
  readonly clientToken: string
  /** Where the databases of its sessions are. */
  readonly folder: string
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
}

const startBunHost = async (): Promise<Host> => {
  const stateDir = await mkdtemp(join(tmpdir(), "child-reports-hub-"))
  const start = async (port: number) => {
    const hub = await startLocalHub({
      stateDir,
      workDir: stateDir,
      port,
      environment: {},
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
    })
    await hub.resume()
    return hub
  }
  let hub = await start(freePort())
  return {
    url: hub.url,
    clientToken: CLIENT_TOKEN,
    folder: stateDir,
    restart: async () => {
      const { port } = hub
      await hub.stop()
      hub = await start(port)
    },
    stop: async () => {
      await hub.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}

/** Number of reports of all sessions that their parent has not confirmed. A confirmed report is not sent again. */
const pendingReports = ({ folder }: Host): number =>
  [...new Bun.Glob("**/*.{db,sqlite}").scanSync(folder)].reduce((sum, file) => {
    const db = new Database(join(folder, file), { readonly: true })
    try {
      // The host writes at the same time.
      db.run("PRAGMA busy_timeout = 30000")
      const tables = db.query("SELECT 1 FROM sqlite_master WHERE name = 'deliveries'").all()
      return tables.length === 0
        ? sum
        : sum + db.query("SELECT id FROM deliveries WHERE kind = 'child-report'").all().length
    } finally {
      db.close()
    }
  }, 0)

const hosts = [
  ["bun:sqlite", startBunHost],
  ["a Durable Object", async () => startWorkerd(await bundleWorker())],
] as const

test.each(hosts)(
  "on %s a parent hears once of each of twenty children that end while links are cut and the host restarts",
  async (_name, start) => {
    const host = await start()
    const folder = await mkdtemp(join(tmpdir(), "child-reports-"))
    const wire = await startTcpProxy(Number(new URL(host.url).port))
    const address = `ws://127.0.0.1:${wire.port}`
    const create = async (session: string, fields: object) => {
      const response = await fetch(`${host.url}/sessions/${session}`, {
        method: "PUT",
        headers: { Authorization: `Bearer ${host.clientToken}` },
        body: JSON.stringify({ runnerToken: RUNNER_TOKEN, ...fields }),
      })
      expect(response.status).toBe(201)
    }
    const run = (session: string): FakeRunner =>
      startFakeRunner({
        url: `${address}/sessions/${session}/ws`,
        token: RUNNER_TOKEN,
        stateDir: join(folder, session),
        answer: ({ content }) => [`answer to ${content}`],
        eager: true,
      })

    await create("parent", {})
    const parent = run("parent")
    const names = Array.from({ length: CHILDREN }, (_, index) => `child-${index + 1}`)
    let cutting = true
    const cuts = (async () => {
      while (cutting) {
        // Sleep: the moments of the cuts are chosen at random.
        await Bun.sleep(100 + Math.random() * 700)
        wire.reset()
      }
    })()
    const children: FakeRunner[] = []
    for (const [index, name] of names.entries()) {
      await create(name, { parent: "parent" })
      const child = run(name)
      children.push(child)
      // The request is sent again after a cut, with the same id.
      await parent.uplink.request("session-message", { targetSessionId: name, content: "work" })
      await untilTrue(() => child.prompts.length > 0 && child.busy() === 0, `work of ${name}`)
      child.send({ type: "self-terminate" })
      if (index !== CHILDREN / 2) continue
      wire.setDown(true)
      await host.restart()
      wire.setDown(false)
    }
    /** The names of the children whose report is a message of this role in the parent's conversation. */
    const heard = async (role: string, what: string): Promise<readonly string[]> => {
      const response = await fetch(`${host.url}/sessions/parent`, {
        headers: { Authorization: `Bearer ${host.clientToken}` },
      })
      const { messages } = (await response.json()) as Snapshot
      return messages
        .filter((message) => message.role === role)
        .flatMap(({ parts }) => {
          const text = parts.map((part) => part.text ?? "").join("")
          const [, name] = new RegExp(`Child session (\\S+) has ${what}`).exec(text) ?? []
          return name === undefined ? [] : [name]
        })
        .toSorted()
    }
    cutting = false
    await cuts
    const ends = () =>
      new Set(parent.prompts.filter(({ content }) => content.includes("has ended")).map(idOf)).size
    await untilTrue(() => ends() === CHILDREN, "every end")
    // A second delivery comes with the next attempt of a report: after this none is attempted again.
    await untilEqual(() => pendingReports(host), 0, "confirmation of every report")
    await untilTrue(() => parent.busy() === 0, "end of the parent's turns")
    for (const role of ["user", "assistant"]) {
      expect(await heard(role, "ended")).toEqual(names.toSorted())
      expect(await heard(role, "finished")).toEqual(names.toSorted())
    }
    await Promise.all([parent, ...children].map((runner) => runner.stop()))
    await wire.stop()
    await host.stop()
    await rm(folder, { recursive: true, force: true })
  },
  180_000,
)
