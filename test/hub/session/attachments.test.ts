/** The files of prompts: there as long as the prompt may be sent, gone with its end, and no orphan for long. */
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
/** What lies in the blobs, as bytes. */
const lying = (core: Core) => [...core.blobs.values()].map(atob).toSorted()
const files = (core: Core, connection: string) =>
  core
    .sent(connection)
    .flatMap((frame) => (frame.type === "prompt" ? [frame.attachments?.map((one) => one.url)] : []))

describe("the files of a prompt", () => {
  test("are there while it waits, while it runs and when it is sent again, and go when it ends", () => {
    const core = createCore()
    const id = ask(core, "p", ["one", "two"])
    expect(lying(core)).toEqual(["one", "two"])
    const next = core.connectRunner("a")
    expect(lying(core)).toEqual(["one", "two"])
    // The next runner knows nothing of it: it gets the prompt again.
    const later = core.connectRunner("b", { epoch: "other", nextSeq: next })
    expect(files(core, "b")).toEqual([[url("one"), url("two")]])
    core.receive("b", { type: "complete", messageId: id, ...origin, seq: later })
    expect(lying(core)).toEqual([])
    expect(core.sql.all("SELECT * FROM files")).toEqual([])
  })

  test("are told from others after they are gone: the same request is the same prompt, with other files it is none", () => {
    const core = createCore()
    const id = ask(core, "p", ["one"])
    const next = core.connectRunner("a")
    core.receive("a", { type: "complete", messageId: id, ...origin, seq: next })
    expect(lying(core)).toEqual([])
    expect(ask(core, "p", ["one"])).toBe(id)
    expect(ask(core, "p", ["two"])).toBe("conflict")
    expect(ask(core, "p", ["one", "one"])).toBe("conflict")
    expect(lying(core)).toEqual([])
  })

  test("stay when only another prompt ends, though they are the same", () => {
    const core = createCore()
    const id = ask(core, "p", ["same"])
    ask(core, "q", ["same"])
    const next = core.connectRunner("a")
    core.receive("a", { type: "complete", messageId: id, ...origin, seq: next })
    expect(files(core, "a")).toEqual([[url("same")], [url("same")]])
    expect(lying(core)).toEqual(["same"])
  })

  test.each<readonly [string, (core: Core, id: string) => void]>([
    ["is withdrawn", (core, id) => core.session.clients.request({ type: "withdraw", id }, "test")],
    [
      "is swept out with the queue",
      (core) => core.session.clients.request({ type: "abort", queued: true }, "test"),
    ],
    [
      "answers a question",
      (core, id) => {
        const next = core.connectRunner("a", { settle: false })
        core.receive("a", { type: "question", questionId: "q", text: "?", ...origin, seq: next })
        core.session.clients.request({ type: "promote", id }, "test")
      },
    ],
    [
      "is stopped and lost with its runner",
      (core) => {
        const next = core.connectRunner("a")
        core.session.clients.request({ type: "abort" }, "test")
        core.connectRunner("b", { epoch: "other", nextSeq: next })
      },
    ],
    [
      "is not confirmed as stopped",
      (core) => {
        core.connectRunner("a")
        core.session.clients.request({ type: "abort" }, "test")
        core.clock.advance(15_000)
      },
    ],
    [
      "takes longer than any budget",
      (core) => {
        core.connectRunner("a")
        core.clock.advance(3 * 60 * 60 * 1000)
      },
    ],
    ["waits in a session that ends", (core) => core.session.terminate("enough")],
    [
      "runs in a session that ends",
      (core) => {
        core.connectRunner("a")
        core.session.terminate("enough")
      },
    ],
    [
      "waits in a session that its runner ends",
      (core) => {
        core.session.runner.opened("a")
        core.receive("a", { type: "self-terminate" })
      },
    ],
  ])("go when it %s", (_what, end) => {
    const core = createCore()
    const id = ask(core, "p")
    expect(lying(core)).toEqual(["p"])
    end(core, id)
    expect(lying(core)).toEqual([])
    const open = "SELECT id FROM queue WHERE status IN ('queued', 'processing')"
    expect(core.sql.all(open)).toEqual([])
  })

  test("are not taken by a session that has ended", () => {
    const core = createCore()
    core.session.terminate("enough")
    expect(ask(core, "p")).toBe("too-late")
    expect(lying(core)).toEqual([])
  })
})

describe("a blob", () => {
  /** Fails at one statement, as a disk does. */
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

  test("whose prompt could not be written goes at once", () => {
    const { sql, state } = failing("INSERT INTO queue")
    const core = createCore(sql)
    state.broken = true
    expect(() => ask(core, "p")).toThrow("disk I/O error")
    expect(lying(core)).toEqual([])
    state.broken = false
    ask(core, "p")
    expect(lying(core)).toEqual(["p"])
  })

  test("stays when the end of its prompt could not be written", () => {
    const { sql, state } = failing("INSERT OR REPLACE INTO changes")
    const core = createCore(sql)
    const id = ask(core, "p")
    state.broken = true
    expect(() => core.session.clients.request({ type: "withdraw", id }, "test")).toThrow()
    state.broken = false
    expect(lying(core)).toEqual(["p"])
    core.connectRunner("a")
    expect(files(core, "a")).toEqual([[url("p")]])
  })

  test("that is left by a death between the row and its removal is swept by the next life, and no other is", () => {
    let dead = true
    const blobs = new (class extends Map<string, string> {
      override delete(id: string) {
        if (dead) throw new Error("killed")
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
    // Put away, and then no row was written.
    core.blobs.set("never-written", btoa("half a prompt"))
    dead = false
    const later = core.restart()
    later.session.recover([])
    expect(lying(later)).toEqual(["an image", "waits"])
    later.connectRunner("a")
    expect(files(later, "a")).toEqual([[url("waits")]])
  })
})
