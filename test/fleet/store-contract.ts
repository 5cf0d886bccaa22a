/** The contract of the fleet's store, for every database. Two stores are opened on one database, which all tests share: each has its own ids. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { isOpen, recordsAfter } from "../../src/fleet/core/history.ts"
import { type Life, newLife } from "../../src/fleet/core/life.ts"
import { gained, highest } from "../../src/fleet/core/prompt-counts.ts"
import { createRefusal, DAY_MS, hasRoom } from "../../src/fleet/core/quota.ts"
import type { FleetStore, StoredSession } from "../../src/fleet/store/ports.ts"
import { createWaiters } from "../../src/fleet/wait-for-change.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createManualClock } from "../kit/clock.ts"
import { untilTrue } from "../kit/until-true.ts"
import { changedLife, lifeWith } from "./kit/life.ts"

const session = (id: string, threadKey?: string) => ({
  id,
  tenant: "user:a",
  threadKey,
  provider: "noop" as const,
  environment: { GREETING: "hello" },
})

const same = (row: StoredSession) => ({
  life: row.life,
  caller: row.caller,
  callUntil: row.callUntil,
  dueAt: row.dueAt,
})

/** `hears`: whether a store is told of the changes that another one makes. */
export const storeContract = (
  name: string,
  open: () => Promise<FleetStore>,
  { hears }: { readonly hears: boolean } = { hears: true },
): void => {
  describe(`the fleet's store on ${name}`, () => {
    let store: FleetStore
    let other: FleetStore
    beforeAll(async () => {
      store = await open()
      other = await open()
    })
    afterAll(async () => {
      await store.close()
      await other.close()
    })

    test("an error and an answer of a hostile sandbox are stored, with zeros and half a character in them", async () => {
      for (const [index, text] of ["cut in \uD83D", "a \0 zero", "both \0 \uDE00"].entries()) {
        const id = `odd-${index}`
        await store.add(session(id), newLife, 0)
        await store.change(id, 1, (row) => ({
          ...same(row),
          life: { ...row.life, lastError: text },
        }))
        const words = text.split(" ")[0] ?? ""
        expect((await other.find(id))?.life.lastError).toStartWith(words)
        // A query that looks into every life.
        expect((await other.present()).map((row) => row.id)).toContain(id)
      }
      expect(await store.remember("user:a", "odd", "d", 5)).toEqual({ is: "new" })
      await store.settle("user:a", "odd", 200, "a \0 zero", true)
      expect(await other.remember("user:a", "odd", "d", 6)).toMatchObject({ is: "known" })
    })

    test("a request's key has one first request, and its answer is kept for a day", async () => {
      const at = 1_000_000_000
      const asked = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 === 0 ? store : other).remember("user:a", "k", "d1", at),
        ),
      )
      expect(asked.filter(({ is }) => is === "new")).toHaveLength(1)
      expect(asked.filter(({ is }) => is === "running")).toHaveLength(19)
      expect(await other.remember("user:b", "k", "d1", at)).toEqual({ is: "new" })
      expect(await other.remember("user:a", "k", "d2", at)).toEqual({ is: "other" })
      await store.settle("user:a", "k", 200, "{}", true)
      expect(await other.remember("user:a", "k", "d1", at + 1)).toEqual({
        is: "known",
        status: 200,
        body: "{}",
      })
      expect(await other.remember("user:a", "k", "d1", at + 86_400_001)).toEqual({ is: "new" })
      await store.settle("user:a", "k", 500, "", false)
      expect(await store.remember("user:a", "k", "d3", at + 86_400_002)).toEqual({ is: "new" })
    })

    test("a first request that never ended is carried out again after eight minutes", async () => {
      expect(await store.remember("user:a", "lost", "d", 5000)).toEqual({ is: "new" })
      expect(await other.remember("user:a", "lost", "d", 484_000)).toEqual({ is: "running" })
      expect(await other.remember("user:a", "lost", "d", 485_000)).toEqual({ is: "new" })
    })

    test("a purge deletes leases that have ended and answers that are old", async () => {
      expect(await store.lease("nonce:1", "x", 1000, 2000)).toBe(true)
      expect(await store.lease("nonce:2", "x", 1000, 9000)).toBe(true)
      await store.purge(5000)
      expect(await other.lease("nonce:1", "y", 1500, 2000)).toBe(true)
      expect(await other.lease("nonce:2", "y", 5000, 9000)).toBe(false)
    })

    test("every connection sees the same deployment", async () => {
      expect(await store.deployment()).toMatch(/^[\da-f-]{36}$/)
      expect(await other.deployment()).toBe(await store.deployment())
    })

    test("a session is added once, also by its thread, and is read with its environment", async () => {
      const added = await store.add(session("s1", "c:1"), newLife, 5)
      expect(added).toMatchObject({ id: "s1", rev: 0, createdAt: 5, life: newLife })
      expect(added.environment).toEqual({ GREETING: "hello" })
      expect((await other.add(session("s2", "c:1"), newLife, 6)).id).toBe("s1")
      expect((await other.add(session("s1"), newLife, 6)).createdAt).toBe(5)
      expect(await store.find("s2")).toBeUndefined()
      expect((await store.findThread("user:a", "c:1"))?.id).toBe("s1")
      expect(await store.findThread("user:b", "c:1")).toBeUndefined()
    })

    test("fifty changes at the same time from two connections are applied one after another", async () => {
      await store.add(session("counter"), newLife, 0)
      await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          (index % 2 === 0 ? store : other).change("counter", 9, (row) => ({
            ...same(row),
            life: { ...row.life, generation: row.life.generation + 1 },
          })),
        ),
      )
      expect(await store.find("counter")).toMatchObject({ rev: 50, life: { generation: 50 } })
    })

    test("a new snapshot is remembered with the change that names it, or neither is", async () => {
      await store.add(session("saved"), newLife, 0)
      const save = (id: string, fails: boolean) =>
        store.change("saved", 9, (row) => ({
          ...same(row),
          life: { ...row.life, snapshot: { id } },
          snapshot: { id, session: "saved", createdAt: 9 },
          records: () => {
            if (fails) throw new Error("no")
            return []
          },
        }))
      await save("of-saved", false)
      expect(await save("not-saved", true).catch((error: unknown) => String(error))).toBe(
        "Error: no",
      )
      expect((await other.find("saved"))?.life.snapshot).toEqual({ id: "of-saved" })
      const own = (await other.snapshots()).filter((one) => one.session === "saved")
      expect(own).toEqual([{ id: "of-saved", session: "saved", createdAt: 9 }])
      await store.dropSnapshot("of-saved")
    })

    test("the newest snapshot of a sandbox is found by the sandbox", async () => {
      for (const [id, ref, createdAt] of [
        ["older", "sb-saved", 1],
        ["newer", "sb-saved", 2],
        ["of-other", "sb-other", 3],
      ] as const)
        await store.addSnapshot({ id, session: "saved-twice", createdAt, ref })
      await store.addSnapshot({ id: "of-none", session: "saved-twice", createdAt: 4 })
      const newer = { id: "newer", session: "saved-twice", createdAt: 2, ref: "sb-saved" }
      expect(await other.snapshotOf("sb-saved")).toEqual(newer)
      expect(await other.snapshotOf("sb-unknown")).toBeUndefined()
      for (const id of ["older", "newer", "of-other", "of-none"]) await store.dropSnapshot(id)
      expect(await other.snapshotOf("sb-saved")).toBeUndefined()
    })

    test("a change that throws or decides nothing writes nothing", async () => {
      await store.add(session("still"), newLife, 0)
      await store.change("still", 9, () => undefined)
      const failing = store.change("still", 9, () => {
        throw new Error("no")
      })
      expect(await failing.catch((error: unknown) => String(error))).toBe("Error: no")
      expect(await store.find("still")).toMatchObject({ rev: 0, updatedAt: 0 })
      expect(await store.change("missing", 9, same)).toBeUndefined()
    })

    test("a session is due at its time, and when its caller has not renewed the call", async () => {
      await store.add(session("due"), newLife, 0)
      await store.add(session("called"), newLife, 0)
      const pending = {
        number: 3,
        call: { do: "find", generation: 1 },
        since: 0,
        dirty: false,
      } as const
      await store.change("due", 0, (row) => ({ ...same(row), dueAt: 100 }))
      await store.change("called", 0, (row) => ({
        life: { ...row.life, number: 3, pending },
        caller: "a",
        callUntil: 200,
        dueAt: undefined,
      }))
      const due = async (now: number) =>
        (await store.due(now, 1000)).filter((id) => id === "due" || id === "called").toSorted()
      expect(await due(99)).toEqual([])
      expect(await due(100)).toEqual(["due"])
      expect(await store.renewCall("called", "a", 3, 300)).toBe(true)
      expect(await store.renewCall("called", "b", 3, 900)).toBe(false)
      expect(await store.renewCall("called", "a", 2, 900)).toBe(false)
      expect(await due(250)).toEqual(["due"])
      expect(await due(300)).toEqual(["called", "due"])
    })

    test("twenty claims at the same time from two connections get different sandboxes, and the others none", async () => {
      const running = lifeWith({ wanted: "running", phase: "running", ref: "r" })
      const entry = (id: string) => ({
        ...session(id),
        tenant: "pool",
        kind: "pool" as const,
        poolKey: "k1",
      })
      for (let number = 0; number < 5; number += 1)
        await store.add(entry(`warm${number}`), running, number)
      await store.add({ ...entry("other-version"), poolKey: "k0" }, running, 0)
      await store.add(entry("not-yet"), changedLife(running, { phase: "booting" }), 0)
      const claims = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 === 0 ? store : other).claim(
            "k1",
            { tenant: "user:a", threadKey: `t${index}` },
            9,
          ),
        ),
      )
      const got = claims.flatMap((one) => one ?? [])
      expect(got.map(({ id }) => id).toSorted()).toEqual([
        "warm0",
        "warm1",
        "warm2",
        "warm3",
        "warm4",
      ])
      expect(new Set(got.map(({ threadKey }) => threadKey)).size).toBe(5)
      for (const { id, threadKey } of got)
        expect(await other.findThread("user:a", String(threadKey))).toMatchObject({
          id,
          kind: "claimed",
          tenant: "user:a",
          updatedAt: 9,
        })
      expect((await store.pooled()).map(({ id }) => id)).toContain("not-yet")
      await other.bind("warm0")
      expect(await store.find("warm0")).toMatchObject({ kind: "hub" })
      await store.bind("other-version")
      expect(await store.find("other-version")).toMatchObject({ kind: "pool" })
    })

    test("a claim without a thread can be put back, and a session that the hub has given cannot", async () => {
      const running = lifeWith({ wanted: "running", phase: "running", ref: "r" })
      const entry = { ...session("back"), tenant: "pool", kind: "pool" as const, poolKey: "k3" }
      await store.add(entry, running, 0)
      const to = { tenant: "user:b" }
      expect(await store.claim("k3", to, 1)).toMatchObject({ id: "back", tenant: "user:b" })
      expect(await other.claim("k3", to, 1)).toBeUndefined()
      await other.unclaim("back", "pool", 1)
      expect(await store.find("back")).toMatchObject({ kind: "pool", tenant: "pool" })
      expect((await other.claim("k3", to, 2))?.id).toBe("back")
      await store.bind("back")
      await store.unclaim("back", "pool", 2)
      expect(await other.find("back")).toMatchObject({ kind: "hub", tenant: "user:b" })
    })

    test("a claim says who makes the session and until when it is held, and neither outlives it", async () => {
      const ready = lifeWith({ wanted: "running", phase: "running", ref: "r" })
      const entry = { ...session("held"), tenant: "pool", kind: "pool" as const, poolKey: "k5" }
      await store.add(entry, ready, 0)
      const to = { tenant: "org:b", creator: "ann", heldUntil: 500 }
      const found = async () => {
        const row = await other.find("held")
        return { kind: row?.kind, creator: row?.creator, heldUntil: row?.heldUntil }
      }
      const nobody = { creator: undefined, heldUntil: undefined }
      expect(await store.claim("k5", to, 1)).toMatchObject({ creator: "ann", heldUntil: 500 })
      expect(await found()).toEqual({ kind: "claimed", creator: "ann", heldUntil: 500 })
      await store.unclaim("held", "pool", 2)
      expect(await found()).toEqual({ kind: "pool", ...nobody })
      await store.claim("k5", to, 3)
      await store.bind("held")
      expect(await found()).toEqual({ kind: "hub", ...nobody })
    })

    test("a claim among named sandboxes takes one of these, also if another has waited longer", async () => {
      const running = lifeWith({ wanted: "running", phase: "running", ref: "r" })
      for (const [at, id] of ["older", "newer"].entries())
        await store.add(
          { ...session(id), tenant: "pool", kind: "pool", poolKey: "k4" },
          running,
          at,
        )
      const to = { tenant: "user:named", threadKey: "named" }
      expect(await store.claim("k4", { ...to, among: [] }, 1)).toBeUndefined()
      expect(await store.claim("k4", { ...to, among: ["newer"] }, 1)).toMatchObject({ id: "newer" })
      expect(await other.claim("k4", { tenant: "user:named", among: ["newer"] }, 1)).toBeUndefined()
      // The thread has a session: that one is the answer, also if no sandbox fits.
      expect(await other.claim("k4", { ...to, among: [] }, 1)).toMatchObject({ id: "newer" })
      expect(await other.find("older")).toMatchObject({ kind: "pool" })
    })

    test("ten claims for one thread at the same time take one sandbox", async () => {
      const running = lifeWith({ wanted: "running", phase: "running", ref: "r" })
      for (const id of ["one1", "one2", "one3"])
        await store.add({ ...session(id), tenant: "pool", kind: "pool", poolKey: "k2" }, running, 0)
      const claims = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          (index % 2 === 0 ? store : other).claim("k2", { tenant: "user:a", threadKey: "same" }, 9),
        ),
      )
      expect(new Set(claims.map((one) => one?.id)).size).toBe(1)
      const left = (await store.pooled()).filter(
        ({ kind, poolKey }) => kind === "pool" && poolKey === "k2",
      )
      expect(left).toHaveLength(2)
    })

    test("a session is found by the ref of its present sandbox only", async () => {
      await store.add(session("by-ref"), newLife, 0)
      expect(await store.findRef("sb-1")).toBeUndefined()
      const to = (ref: string | undefined) =>
        store.change("by-ref", 1, (row) => ({
          ...same(row),
          life: changedLife(row.life, { phase: ref === undefined ? "absent" : "running", ref }),
        }))
      await to("sb-1")
      expect((await other.findRef("sb-1"))?.id).toBe("by-ref")
      await to("sb-2")
      expect(await other.findRef("sb-1")).toBeUndefined()
      expect((await other.findRef("sb-2"))?.id).toBe("by-ref")
      await to(undefined)
      expect(await other.findRef("sb-2")).toBeUndefined()
      await store.add(session("with-ref"), lifeWith({ phase: "booting", ref: "sb-3" }), 0)
      expect((await other.findRef("sb-3"))?.id).toBe("with-ref")
    })

    test("pages contain every session once and in order, also if sessions of one moment are on two pages", async () => {
      const own = ["p1", "p2", "p3", "p4", "p5"]
      for (const id of own) await store.add(session(id), newLife, id === "p5" ? 5001 : 5000)
      const all = (await store.page(undefined, 1000)).map(({ id }) => id)
      const found: string[] = []
      let after: StoredSession | undefined
      for (;;) {
        const page = await other.page(after, 2)
        expect(page.length).toBeLessThanOrEqual(2)
        if (page.length === 0) break
        found.push(...page.map(({ id }) => id))
        after = page.at(-1)
      }
      expect(found).toEqual(all)
      expect(found.filter((id) => own.includes(id))).toEqual(own)
    })

    test("the sessions of an owner that have a sandbox or a call are read without the others", async () => {
      const ofC = (id: string) => ({ ...session(id), tenant: "user:c" })
      await store.add(ofC("c-ended"), lifeWith({ phase: "ended" }), 0)
      await store.add(ofC("c-runs"), lifeWith({ phase: "running", ref: "c1" }), 0)
      await store.add(ofC("c-called"), newLife, 0)
      await store.change("c-called", 1, (row) => ({ ...same(row), caller: "replica" }))
      const ids = (await other.activeOf("user:c")).map(({ id }) => id)
      expect(ids.toSorted()).toEqual(["c-called", "c-runs"])
    })

    test("sessions that have ended are neither listed nor counted, and are found by the time of their end or next look", async () => {
      const ended = lifeWith({ phase: "ended", wanted: "ended" })
      const at = 7_000_000
      await store.add(session("present"), newLife, at)
      for (const id of ["over-1", "over-2", "over-3"]) await store.add(session(id), ended, at)
      await store.add(session("over-later"), ended, at + 1000)
      const listed = (await other.present()).map(({ id }) => id)
      expect(listed).toContain("present")
      expect(listed.filter((id) => id.startsWith("over"))).toEqual([])
      expect((await other.phases()).map(({ phase }) => phase)).not.toContain("ended")
      const toTidy = async (endedBefore: number, now: number, limit = 1000) =>
        (await other.endedToTidy(endedBefore, now, limit))
          .map(({ id }) => id)
          .filter((id) => id.startsWith("over"))
          .toSorted()
      expect(await toTidy(at - 1, at)).toEqual([])
      expect(await toTidy(at, at)).toEqual(["over-1", "over-2", "over-3"])
      expect(await other.endedToTidy(at, at, 2)).toHaveLength(2)
      await store.tidyAgain("over-1", at + 500)
      await store.tidyAgain("over-2", Number.MAX_SAFE_INTEGER)
      expect(await toTidy(at + 100, at + 499)).toEqual(["over-3"])
      expect(await toTidy(at + 1000, at + 500)).toEqual(["over-1", "over-3", "over-later"])
    })

    test("the row of an ended session is deleted, unless the session was changed or made anew", async () => {
      const ended = lifeWith({ phase: "ended", wanted: "ended" })
      const read = async (id: string) => {
        const row = await store.add(session(id), ended, 0)
        expect(row.rev).toBe(0)
        return row
      }
      const [left, changed, anew] = [await read("left"), await read("changed"), await read("anew")]
      await other.change("changed", 1, same)
      await other.replace(session("anew"), newLife, 1)
      for (const row of [left, changed, anew]) await store.forgetEnded(row)
      expect(await other.find("left")).toBeUndefined()
      expect((await other.find("changed"))?.rev).toBe(1)
      expect((await other.find("anew"))?.life.phase).toBe("absent")
    })

    test("sessions are counted by provider and phase", async () => {
      const count = async () =>
        (await other.phases()).find(({ phase }) => phase === "paused")?.count ?? 0
      const before = await count()
      await store.add(session("paused-1"), lifeWith({ phase: "paused", ref: "z1" }), 0)
      await store.add(session("paused-2"), lifeWith({ phase: "paused", ref: "z2" }), 0)
      expect((await count()) - before).toBe(2)
    })

    test("a record that is made anew has the new tokens, and readers find it at every moment", async () => {
      await store.add(session("again"), newLife, 0)
      let isOver = false
      let missing = 0
      const reading = (async () => {
        while (!isOver) if (!(await other.find("again"))) missing += 1
      })()
      for (let number = 1; number <= 20; number += 1)
        await store.replace(
          { ...session("again"), environment: { NUMBER: String(number) } },
          { ...newLife, generation: number },
          number,
        )
      isOver = true
      await reading
      expect(missing).toBe(0)
      const row = await other.find("again")
      expect(row).toMatchObject({ environment: { NUMBER: "20" }, life: { generation: 20 } })
    })

    test("twenty creates at the same time from two connections: as many are counted as the limit allows", async () => {
      const at = 9_000_000_000
      const limit = (times: readonly number[]) => createRefusal(times, { createsPerHour: 5 }, at)
      const asked = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 === 0 ? store : other).countCreate(
            { tenant: "user:many", session: `m${index}`, generation: 1, at },
            limit,
          ),
        ),
      )
      expect(asked.filter((refusal) => refusal === undefined)).toHaveLength(5)
      expect(await other.creates("user:many", at - 1)).toEqual([at, at, at, at, at])
      expect(await other.creates("user:many", at)).toEqual([])
      const counted = asked.findIndex((refusal) => refusal === undefined)
      const repeated = { tenant: "user:many", session: `m${counted}`, generation: 1, at }
      expect(await other.countCreate(repeated, limit)).toBeUndefined()
      expect(await other.creates("user:many", 0)).toHaveLength(5)
      await store.uncountCreate(`m${counted}`, 1)
      expect(await other.creates("user:many", 0)).toHaveLength(4)
      expect(
        await other.countCreate(
          { tenant: "user:other", session: "o", generation: 1, at },
          (times) => createRefusal(times, { createsPerHour: 1 }, at),
        ),
      ).toBeUndefined()
      await store.purge(at + 86_400_000)
      expect(await other.creates("user:many", 0)).toEqual([])
    })

    test("twenty starts of an owner at the same time: as many are admitted as there is room, each for its call only", async () => {
      const tenant = "user:admitted"
      const starting = (number: number) =>
        lifeWith({
          number,
          pending: { number, call: { do: "create", generation: 1 }, since: 0, dirty: false },
        })
      const ids = Array.from({ length: 20 }, (_, index) => `a${index}`)
      for (const id of ids) {
        await store.add({ ...session(id), tenant }, newLife, 0)
        await store.change(id, 0, (row) => ({ ...same(row), life: starting(1), caller: "x" }))
      }
      const refusal = { why: "no", note: "no", retryAt: 0 }
      const admit = (on: FleetStore, id: string, number = 1) =>
        on.admit({ id, tenant }, number, (active) => (hasRoom(id, active, 5) ? undefined : refusal))
      const asked = await Promise.all(
        ids.map((id, index) => admit(index % 2 === 0 ? store : other, id)),
      )
      const admitted = ids.filter((_, index) => asked[index] === undefined)
      expect(admitted).toHaveLength(5)
      const [first = "", second = ""] = admitted
      expect(await other.find(first)).toMatchObject({ isAdmitted: true })
      expect(await admit(other, first)).toBeUndefined()
      // It lasts while the call or its result is in doubt, and ends with it.
      const change = (id: string, life: Life) =>
        store.change(id, 1, (row) => ({ ...same(row), life, caller: undefined }))
      await change(first, lifeWith({ number: 1, doubt: true }))
      expect((await other.activeOf(tenant)).map(({ id }) => id)).toContain(first)
      await change(second, { ...newLife, number: 1 })
      expect((await other.find(second))?.isAdmitted).toBeUndefined()
      const refused = ids.filter((id) => !admitted.includes(id))
      const [next = "", last = ""] = refused
      // The call was given up meanwhile: it gets no place that nobody would free.
      expect(await admit(store, next, 7)).toBeUndefined()
      expect((await other.find(next))?.isAdmitted).toBeUndefined()
      expect(await admit(store, next)).toBeUndefined()
      expect(await admit(other, last)).toEqual(refusal)
    })

    test("twenty reports about the prompts of a session at the same time: each step is counted once", async () => {
      const at = 9_000_000_000
      const counts = (done: number) => ({ done, failed: 0, retried: 0, replaced: 0 })
      let counted = 0
      const report = (on: FleetStore, done: number) =>
        on.countPrompts("counted", at, (known) => {
          if (known) counted += gained(known, counts(done)).done
          return known ? highest(known, counts(done)) : counts(done)
        })
      await report(store, 0)
      await Promise.all(
        Array.from({ length: 20 }, (_, index) => report(index % 2 === 0 ? store : other, index)),
      )
      expect(counted).toBe(19)
      let left: unknown
      await other.countPrompts("counted", at, (known) => {
        left = known
        return undefined
      })
      expect(left).toEqual(counts(19))
      await report(store, 5)
      await store.purge(at + 90 * DAY_MS)
      await other.countPrompts("counted", at, (known) => {
        left = known
        return undefined
      })
      expect(left).toBeUndefined()
    })

    const running = (ref: string, generation = 1) =>
      lifeWith({ wanted: "running", phase: "running", ref, generation })
    const paused = (ref: string) => changedLife(running(ref), { phase: "paused" })
    /** Changes the life of a session as the keeper does: with its records, in one transaction. */
    const to = (on: FleetStore, id: string, life: Life, at: number) =>
      on.change(id, at, (row) => ({
        ...same(row),
        life,
        records: (known) =>
          recordsAfter(
            known,
            { before: row.life, after: life },
            { session: id, tenant: row.tenant, provider: row.provider, costPerHour: 0.5 },
            at,
          ),
      }))

    test("the seconds of an owner's sandboxes add up for each day", async () => {
      const ofT = (id: string) => ({ ...session(id), tenant: "user:t" })
      const from = 20 * DAY_MS
      await store.add(ofT("t1"), running("t-box1"), from)
      await store.add(ofT("t2"), running("t-box2"), from + 58_500)
      await Promise.all([store.countSeconds(from + 60_000), other.countSeconds(from + 60_000)])
      expect(await other.secondsOf("user:t", 20)).toBe(61.5)
      expect(await other.secondsOf("user:t", 22)).toBe(0)
      await to(store, "t1", paused("t-box1"), from + 60_000)
      await to(store, "t2", paused("t-box2"), from + 60_000)
      await to(store, "t1", running("t-box1"), 21 * DAY_MS)
      await to(other, "t1", newLife, 21 * DAY_MS + 7000)
      expect(await other.secondsOf("user:t", 21)).toBe(7)
      await store.purge(21 * DAY_MS)
      expect(await other.secondsOf("user:t", 20)).toBe(0)
      expect(await other.secondsOf("user:t", 21)).toBe(7)
    })

    test("every sandbox of a session has one record, which is stored with the change and read by its owner only", async () => {
      await store.add(session("had"), newLife, 0)
      await to(store, "had", running("had-1", 1), 1000)
      await to(store, "had", paused("had-1"), 11_000)
      await to(other, "had", running("had-1", 1), 500_000)
      await to(store, "had", { ...newLife, generation: 1 }, 505_000)
      await to(other, "had", running("had-2", 2), 600_000)
      const records = await other.history("had", "user:a", 10)
      expect(records).toMatchObject([
        { generation: 1, ref: "had-1", createdAt: 1000, endedAt: 505_000, seconds: 15 },
        { generation: 2, ref: "had-2", createdAt: 600_000, seconds: 0, countedAt: 600_000 },
      ])
      expect(records.map((record) => [isOpen(record), record.costPerHour])).toEqual([
        [false, 0.5],
        [true, 0.5],
      ])
      expect((await store.history("had", "user:a", 1)).map(({ ref }) => ref)).toEqual(["had-2"])
      expect(await store.history("had", "user:b", 10)).toEqual([])
      expect([await store.recordOf("had-1"), await other.recordOf("had-2")]).toEqual([...records])
      expect(await store.recordOf("never-had")).toBeUndefined()
    })

    test("a change that fails leaves neither the life nor the record behind", async () => {
      await store.add(session("torn"), newLife, 0)
      const failed = await store
        .change("torn", 5, (row) => ({
          ...same(row),
          life: running("torn-1"),
          records: () => {
            throw new Error("the process ends here")
          },
        }))
        .catch((error: unknown) => String(error))
      expect(failed).toContain("the process ends here")
      expect(await other.find("torn")).toMatchObject({ rev: 0, life: newLife })
      expect(await other.history("torn", "user:a", 10)).toEqual([])
    })

    test("seconds that two connections count at the same time are counted once", async () => {
      const owner = { ...session("twice"), tenant: "user:twice" }
      const from = 30 * DAY_MS
      await store.add(owner, running("twice-1"), from)
      await Promise.all([
        ...Array.from({ length: 10 }, (_, index) =>
          (index % 2 === 0 ? store : other).countSeconds(from + 60_000),
        ),
        to(other, "twice", paused("twice-1"), from + 60_000),
      ])
      expect(await store.secondsOf("user:twice", 30)).toBe(60)
      expect(await store.history("twice", "user:twice", 10)).toMatchObject([{ seconds: 60 }])
    })

    test("a claimed sandbox's record belongs to its owner, and its seconds begin with the claim", async () => {
      const from = 40 * DAY_MS
      const entry = { ...session("claim"), tenant: "pool", kind: "pool" as const, poolKey: "k9" }
      await store.add(entry, running("claim-1"), from)
      await other.claim("k9", { tenant: "user:d" }, from + 100_000)
      expect(await store.history("claim", "pool", 10)).toEqual([])
      await store.countSeconds(from + 130_000)
      expect(await store.history("claim", "user:d", 10)).toMatchObject([
        { ref: "claim-1", createdAt: from, seconds: 30 },
      ])
      expect(await store.secondsOf("user:d", 40)).toBe(30)
      await other.unclaim("claim", "pool", from + 140_000)
      expect(await store.history("claim", "user:d", 10)).toEqual([])
      expect(await store.history("claim", "pool", 10)).toMatchObject([{ seconds: 0 }])
      expect(await store.secondsOf("user:d", 40)).toBe(40)
    })

    test("the record of a forgotten session is open until its sandbox's end, and stays until it is purged", async () => {
      await store.add(session("left-open"), running("left-1"), 1000)
      const isLeft = async (provider = "noop") =>
        (await other.openRecords(provider)).some(({ ref }) => ref === "left-1")
      await store.forget("left-open")
      expect(await isLeft()).toBe(true)
      expect(await isLeft("docker")).toBe(false)
      await other.endRecord("left-open", "left-1", "forgotten", 5000)
      await other.endRecord("left-open", "left-1", "gone", 6000)
      expect(await isLeft()).toBe(false)
      expect(await store.history("left-open", "user:a", 10)).toMatchObject([
        { endedAt: 5000, whyEnded: "forgotten", seconds: 4 },
      ])
      await store.purgeHistory(5000)
      expect(await other.history("left-open", "user:a", 10)).toHaveLength(1)
      await store.purgeHistory(5001)
      expect(await other.history("left-open", "user:a", 10)).toEqual([])
    })

    test("a lease has one owner until its time", async () => {
      expect(await store.lease("sweep", "a", 0, 100)).toBe(true)
      expect(await other.lease("sweep", "b", 50, 150)).toBe(false)
      expect(await store.lease("sweep", "a", 60, 160)).toBe(true)
      expect(await other.lease("sweep", "b", 160, 260)).toBe(true)
    })

    const BACKSTOP_MS = 1000

    test("a watcher is told of every change of a session by its own store", async () => {
      const told: (string | undefined)[] = []
      const unwatch = store.watch((id) => void told.push(id))
      const ofOwn = () => told.filter((id) => id?.startsWith("watched-own"))
      await store.add(session("watched-own"), newLife, 0)
      await store.change("watched-own", 1, () => undefined)
      expect(ofOwn()).toEqual([])
      await store.change("watched-own", 1, same)
      await store.replace(session("watched-own"), newLife, 2)
      await store.forget("watched-own")
      expect(ofOwn()).toEqual(["watched-own", "watched-own", "watched-own"])
      unwatch()
      await store.add(session("watched-own"), newLife, 0)
      await store.change("watched-own", 1, same)
      expect(ofOwn()).toHaveLength(3)
    })

    if (hears)
      test("a watcher is told of the changes of another store, and only of those that are stored", async () => {
        await untilTrue(async () => store.pollMs() >= BACKSTOP_MS, "notifications arrive")
        const told = new Set<string | undefined>()
        const unwatch = store.watch((id) => void told.add(id))
        const isTold = (id: string) => untilTrue(async () => told.has(id), `a change of ${id}`)
        const pool = (id: string) => ({ ...session(id), tenant: "pool", kind: "pool" as const })
        await other.add({ ...pool("w 1"), poolKey: "k7" }, running("w-box"), 0)
        await other.claim("k7", { tenant: "user:w" }, 1)
        await isTold("w 1")
        for (const change of [
          () => other.unclaim("w 1", "pool", 2),
          () => other.claim("k7", { tenant: "user:w" }, 3),
          () => other.bind("w 1"),
          () => other.change("w 1", 4, same),
          () => other.replace(session("w 1"), newLife, 5),
          () => other.forget("w 1"),
        ]) {
          told.clear()
          await change()
          await isTold("w 1")
        }
        await other.add(session("w-torn"), newLife, 0)
        await other
          .change("w-torn", 1, (row) => ({
            ...same(row),
            records: () => {
              throw new Error("no")
            },
          }))
          .catch(() => {})
        await other.add(session("w-last"), newLife, 0)
        await other.change("w-last", 1, same)
        await isTold("w-last")
        expect(told.has("w-torn")).toBe(false)
        unwatch()
      })
    else
      test("a store that is not told of the changes of others reads often", async () => {
        expect(store.pollMs()).toBeLessThan(BACKSTOP_MS)
      })

    test("a keeper that waits sees the change of another replica, also one during its read", async () => {
      if (hears) await untilTrue(async () => store.pollMs() >= BACKSTOP_MS, "notifications arrive")
      await store.add(session("awaited"), newLife, 0)
      // Where notifications arrive, the clock of the waiter stands still: nothing else wakes it.
      const clock = hears ? createManualClock(0) : systemClock
      let reads = 0
      const waiters = createWaiters(
        {
          ...store,
          find: async (id) => {
            const found = await store.find(id)
            reads += 1
            if (reads === 1) await other.change("awaited", 1, (row) => ({ ...same(row), dueAt: 1 }))
            return found
          },
        },
        clock,
      )
      const limit = AbortSignal.timeout(60_000)
      const first = await waiters.waitFor("awaited", ({ dueAt }) => dueAt === 1, limit)
      expect(first?.dueAt).toBe(1)
      const second = waiters.waitFor("awaited", ({ dueAt }) => dueAt === 2, limit)
      const before = reads
      await untilTrue(async () => reads > before, "the waiter has read")
      await other.change("awaited", 2, (row) => ({ ...same(row), dueAt: 2 }))
      expect((await second)?.dueAt).toBe(2)
      waiters.stop()
    })

    test("the volume of a forgotten session is remembered, and looked at when its time has come", async () => {
      for (const id of ["left-1", "left-2", "left-3"]) await store.add(session(id), newLife, 0)
      await store.forget("left-1", 100)
      await store.forget("left-2", 200)
      // Its volume does not exist any more.
      await store.forget("left-3")
      await store.forget("never-there", 100)
      const found = async (leftBefore: number, at: number) =>
        (await other.leftVolumes(leftBefore, at, 10)).map((one) => one.session)
      expect(await other.leftVolumes(100, 0, 10)).toEqual([{ session: "left-1", provider: "noop" }])
      expect(await found(200, 0)).toEqual(["left-1", "left-2"])
      expect(await other.leftVolumes(200, 0, 1)).toHaveLength(1)
      await store.lookAtVolume("left-1", 500)
      expect(await found(200, 499)).toEqual(["left-2"])
      expect(await found(200, 500)).toEqual(["left-1", "left-2"])
      await store.dropVolume("left-2")
      // Recorded and forgotten again: the time begins anew.
      await store.add(session("left-1"), newLife, 0)
      await other.forget("left-1", 600)
      expect(await found(599, 599)).toEqual([])
      expect(await found(600, 600)).toEqual(["left-1"])
      await store.dropVolume("left-1")
    })

    test("a forgotten session is gone", async () => {
      await store.add(session("gone"), newLife, 0)
      await store.forget("gone")
      expect(await other.find("gone")).toBeUndefined()
      expect((await store.page(undefined, 1000)).map(({ id }) => id)).not.toContain("gone")
    })
  })
}
