/** The files of prompts: stored while the prompt may be sent, deleted at its end, and orphans deleted at the next start. */
import { describe, expect, test } from "bun:test"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import type { Sql } from "../../../src/hub/session/ports.ts"
import { type Core, createCore } from "../kit/core.ts"

const url = (bytes: string) => `data:text/plain;base64,${btoa(bytes)}`
const file = (bytes: string) => ({ type: "file" as const, mime: "text/plain", url: url(bytes) })
const origin = { channelType: "web", channelId: "default" }

const ask = (core: Core, name: string, bytes: readonly string[] = [name]) => {
  const reply = core.session.clients.request(
    { type: "prompt", content: name, clientRequestId: name, attachments: bytes.map(file) },
    "test",
  )
  return reply.ok ? String(reply["messageId"]) : reply.error.code
}
/** The contents of the blobs. */
const stored = (core: Core) => [...core.blobs.values()].map(atob).toSorted()
const files = (core: Core, connection: string) =>
  core
    .sent(connection)
    .flatMap((frame) => (frame.type === "prompt" ? [frame.attachments?.map((one) => one.url)] : []))

describe("the files of a prompt", () => {
  test("the files of a prompt exist while it waits, runs and is sent again, and are deleted when it ends", () => {
    const core = createCore()
    const id = ask(core, "p", ["one", "two"])
    expect(stored(core)).toEqual(["one", "two"])
    const next = core.connectRunner("a")
    expect(stored(core)).toEqual(["one", "two"])
    // The next runner does not run the prompt, so it is sent again.
    const later = core.connectRunner("b", { epoch: "other", nextSeq: next })
    expect(files(core, "b")).toEqual([[url("one"), url("two")]])
    core.receive("b", { type: "complete", messageId: id, ...origin, seq: later })
    expect(stored(core)).toEqual([])
    expect(core.sql.all("SELECT * FROM files")).toEqual([])
  })

  test("after its files are deleted, a repeated request is the same prompt, and with other files a conflict", () => {
    const core = createCore()
    const id = ask(core, "p", ["one"])
    const next = core.connectRunner("a")
    core.receive("a", { type: "complete", messageId: id, ...origin, seq: next })
    expect(stored(core)).toEqual([])
    expect(ask(core, "p", ["one"])).toBe(id)
    expect(ask(core, "p", ["two"])).toBe("conflict")
    expect(ask(core, "p", ["one", "one"])).toBe("conflict")
    expect(stored(core)).toEqual([])
  })

  test("the files of a prompt stay when another prompt with the same files ends", () => {
    const core = createCore()
    const id = ask(core, "p", ["same"])
    ask(core, "q", ["same"])
    const next = core.connectRunner("a")
    core.receive("a", { type: "complete", messageId: id, ...origin, seq: next })
    expect(files(core, "a")).toEqual([[url("same")], [url("same")]])
    expect(stored(core)).toEqual(["same"])
  })

  test.each<readonly [string, (core: Core, id: string) => void]>([
    [
      "it is withdrawn",
      (core, id) => core.session.clients.request({ type: "withdraw", id }, "test"),
    ],
    [
      "the queue is emptied",
      (core) => core.session.clients.request({ type: "abort", queued: true }, "test"),
    ],
    [
      "it answers a question",
      (core, id) => {
        const next = core.connectRunner("a", { settle: false })
        core.receive("a", { type: "question", questionId: "q", text: "?", ...origin, seq: next })
        core.session.clients.request({ type: "promote", id }, "test")
      },
    ],
    [
      "it is stopped and its runner is replaced",
      (core) => {
        const next = core.connectRunner("a")
        core.session.clients.request({ type: "abort" }, "test")
        core.connectRunner("b", { epoch: "other", nextSeq: next })
      },
    ],
    [
      "its stop times out",
      (core) => {
        core.connectRunner("a")
        core.session.clients.request({ type: "abort" }, "test")
        core.clock.advance(15_000)
      },
    ],
    [
      "it takes longer than every timeout",
      (core) => {
        core.connectRunner("a")
        core.clock.advance(3 * 60 * 60 * 1000)
      },
    ],
    ["its session is terminated before it runs", (core) => core.session.terminate("enough")],
    [
      "its session is terminated while it runs",
      (core) => {
        core.connectRunner("a")
        core.session.terminate("enough")
      },
    ],
    [
      "the runner ends the session before it runs",
      (core) => {
        core.session.runner.opened("a")
        core.receive("a", { type: "self-terminate" })
      },
    ],
  ])("the files of a prompt are deleted when %s", (_what, end) => {
    const core = createCore()
    const id = ask(core, "p")
    expect(stored(core)).toEqual(["p"])
    end(core, id)
    expect(stored(core)).toEqual([])
    const open = "SELECT id FROM queue WHERE status IN ('queued', 'processing')"
    expect(core.sql.all(open)).toEqual([])
  })

  test("a session that has ended stores no files", () => {
    const core = createCore()
    core.session.terminate("enough")
    expect(ask(core, "p")).toBe("too-late")
    expect(stored(core)).toEqual([])
  })
})

describe("blobs and failures", () => {
  /** SQL that fails at one statement, like a broken disk. */
  const failing = (at: string) => {
    const sql = openBunSql(":memory:")
    const state = { broken: false }
    const guard = (query: string) => {
      if (state.broken && query.startsWith(at)) throw new Error("disk I/O error")
    }
    const made: Sql = {
      ...sql,
      all: (query, ...values) => {
        guard(query)
        return sql.all(query, ...values)
      },
      run: (query, ...values) => {
        guard(query)
        sql.run(query, ...values)
      },
    }
    return { sql: made, state }
  }

  test("a blob is deleted at once when its prompt cannot be written", () => {
    const { sql, state } = failing("INSERT INTO queue")
    const core = createCore(sql)
    state.broken = true
    expect(() => ask(core, "p")).toThrow("disk I/O error")
    expect(stored(core)).toEqual([])
    state.broken = false
    ask(core, "p")
    expect(stored(core)).toEqual(["p"])
  })

  test("a blob stays when the end of its prompt cannot be written", () => {
    const { sql, state } = failing("INSERT OR REPLACE INTO changes")
    const core = createCore(sql)
    const id = ask(core, "p")
    state.broken = true
    expect(() => core.session.clients.request({ type: "withdraw", id }, "test")).toThrow()
    state.broken = false
    expect(stored(core)).toEqual(["p"])
    core.connectRunner("a")
    expect(files(core, "a")).toEqual([[url("p")]])
  })

  test("a blob that a crash left without a row is deleted at the next start, and other blobs are not", () => {
    let isBroken = true
    const blobs = new (class extends Map<string, string> {
      override delete(id: string) {
        if (isBroken) throw new Error("killed")
        return super.delete(id)
      }
    })()
    const core = createCore(undefined, undefined, undefined, blobs)
    const id = ask(core, "over")
    ask(core, "waits")
    core.session.note({
      id: "n1",
      role: "assistant",
      content: "look",
      image: { base64: btoa("an image"), mime: "image/png" },
    })
    core.session.clients.request({ type: "withdraw", id }, "test")
    expect(core.reports).toEqual(["hub.blob-not-deleted"])
    // A blob whose row was never written.
    core.blobs.set("never-written", btoa("half a prompt"))
    isBroken = false
    const later = core.restart()
    later.session.recover([])
    expect(stored(later)).toEqual(["an image", "waits"])
    later.connectRunner("a")
    expect(files(later, "a")).toEqual([[url("waits")]])
  })
})
