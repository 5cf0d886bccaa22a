/** The index of sessions: owners, trees, lists and totals. */
import { beforeEach, describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createSessionIndex, type SessionIndex } from "../../../src/hub/access/session-index.ts"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import type { Sql } from "../../../src/hub/session/ports.ts"
import { createManualClock, type ManualClock } from "../../kit/clock.ts"

const seed = Date.now() % 2 ** 31
let sql: Sql
let clock: ManualClock
let index: SessionIndex

const fresh = () => {
  sql = openBunSql(":memory:")
  clock = createManualClock(1000)
  index = createSessionIndex(sql, clock.now)
}
beforeEach(fresh)

const add = (...ids: readonly string[]) => {
  for (const id of ids) {
    clock.advance(1)
    index.add(id, "user:alice")
  }
}

test("the last reported status of a session is in the index, and a stored one of another form is left out", () => {
  add("s1")
  const live = { connected: true, working: 1, queued: 0, waiting: 0, channels: [] }
  index.update("s1", { live })
  expect(index.find("s1")?.live).toEqual(live)
  sql.run("UPDATE session_index SET live = ? WHERE id = ?", '{"connected":"yes"}', "s1")
  expect(index.find("s1")).toMatchObject({ id: "s1", title: "" })
  expect(index.find("s1")?.live).toBeUndefined()
})

describe("owners in the index", () => {
  test("an id that is taken keeps its owner", () => {
    expect(index.add("s1", "user:alice")).toBeTrue()
    expect(index.add("s1", "user:mallory")).toBeFalse()
    expect(index.find("s1")?.owner).toBe("user:alice")
  })
  test("a child belongs to the owner of its parent", () => {
    index.add("root", "user:alice")
    expect(() => index.add("child", "user:bob", "root")).toThrow("does not belong to user:bob")
    expect(() => index.add("child", "user:bob", "missing")).toThrow("does not belong to user:bob")
    expect(index.add("child", "user:alice", "root")).toBeTrue()
    expect(index.find("child")?.parent).toBe("root")
  })
  test("ancestors go from the parent to the root, and a cycle in the rows ends", () => {
    index.add("a", "user:alice")
    index.add("b", "user:alice", "a")
    index.add("c", "user:alice", "b")
    expect(index.ancestors("c")).toEqual(["b", "a"])
    expect(index.ancestors("a")).toEqual([])
    expect(index.ancestors("missing")).toEqual([])
    sql.run("UPDATE session_index SET parent = 'c' WHERE id = 'a'")
    expect(index.ancestors("c")).toEqual(["b", "a", "c"])
  })
})

describe("lists of sessions", () => {
  const ids = (query: Parameters<SessionIndex["list"]>[0]) =>
    index.list(query).sessions.map(({ id }) => id)

  test("a list holds the sessions of the given owners, last active first", () => {
    add("a1", "a2")
    index.add("b1", "user:bob")
    index.add("o1", "org:acme")
    index.update("a1", { activeAt: 9999, title: "one", dollars: 1.5, tokens: 7, rev: 3 })
    expect(ids({ owners: ["user:alice"] })).toEqual(["a1", "a2"])
    expect(ids({ owners: ["user:bob", "org:acme"] })).toEqual(["b1", "o1"])
    expect(ids({ owners: "all" })).toEqual(["a1", "a2", "b1", "o1"])
    expect(ids({ owners: [] })).toEqual([])
    expect(index.list({ owners: ["user:alice"], limit: 1 }).sessions[0]).toEqual({
      id: "a1",
      owner: "user:alice",
      title: "one",
      status: "running",
      createdAt: 1001,
      activeAt: 9999,
      rev: 3,
      dollars: 1.5,
      tokens: 7,
      bytes: 0,
    })
  })
  test("a list holds sessions that were shared with a person until they are not", () => {
    add("a1", "a2")
    index.setMembers("a1", ["vera", "vera", "ed"])
    expect(ids({ owners: ["user:vera"], sub: "vera" })).toEqual(["a1"])
    expect(ids({ owners: [], sub: "vera" })).toEqual(["a1"])
    index.setMembers("a1", ["ed"])
    expect(ids({ owners: ["user:vera"], sub: "vera" })).toEqual([])
  })
  test("a search finds a part of the title or the id and takes wildcards literally", () => {
    add("fix-login", "other", "third")
    index.update("other", { title: "100% Coverage" })
    const found = (search: string) => ids({ owners: ["user:alice"], search })
    expect(found("LOGIN")).toEqual(["fix-login"])
    expect(found("coverage")).toEqual(["other"])
    expect(found("%")).toEqual(["other"])
    expect(found("_")).toEqual([])
    expect(found("\\")).toEqual([])
    expect(found("' OR 1 --")).toEqual([])
    expect(found("").length).toBe(3)
  })
  test("a search and a cursor never reach the sessions of another owner", () => {
    add("secret")
    expect(ids({ owners: ["user:bob"], search: "s", cursor: "999999:a" })).toEqual([])
    expect(ids({ owners: ["user:bob"], sub: "bob", search: "s" })).toEqual([])
  })
  test(`pages hold every session once (seed ${seed})`, () => {
    const activity = fc.array(fc.nat(3), { maxLength: 30 })
    fc.assert(
      fc.property(activity, fc.integer({ min: 1, max: 7 }), (times, limit) => {
        fresh()
        for (const [place, activeAt] of times.entries()) {
          index.add(`s${place}`, "user:alice")
          index.update(`s${place}`, { activeAt })
        }
        const seen: string[] = []
        let cursor: string | undefined
        do {
          const page = index.list({ owners: ["user:alice"], limit, cursor })
          seen.push(...page.sessions.map(({ id }) => id))
          cursor = page.next
        } while (cursor !== undefined)
        return seen.length === times.length && new Set(seen).size === times.length
      }),
      { seed },
    )
  })
})

describe("totals of an owner", () => {
  test("totals count running sessions and everything that was spent and stored", () => {
    add("a1", "a2")
    index.add("b1", "user:bob")
    index.update("a1", { dollars: 1.5, tokens: 10, bytes: 100 })
    index.update("a2", { dollars: 0.5, tokens: 5, bytes: 1, status: "ended" })
    index.update("b1", { dollars: 100 })
    expect(index.totals("user:alice")).toEqual({ running: 1, dollars: 2, tokens: 15, bytes: 101 })
    expect(index.totals("user:carol")).toEqual({ running: 0, dollars: 0, tokens: 0, bytes: 0 })
  })
})
