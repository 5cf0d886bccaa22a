/** One contract for both databases: SQLite, and a real PostgreSQL server with two independent connections. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newLife } from "../../../src/fleet/core/life.ts"
import type { FleetStore, StoredSession } from "../../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../../src/fleet/store/postgres-store.ts"
import { openSqliteStore } from "../../../src/fleet/store/sqlite-store.ts"
import { startPostgres, type TestPostgres } from "../kit/postgres.ts"

const folder = mkdtempSync(join(tmpdir(), "fleet-store-"))
let postgres: TestPostgres

beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(async () => {
  await postgres.stop()
  rmSync(folder, { recursive: true, force: true })
})

const databases: Readonly<Record<string, () => Promise<FleetStore>>> = {
  SQLite: async () => openSqliteStore(join(folder, "fleet.db")),
  PostgreSQL: () => openPostgresStore(postgres.url),
}

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

for (const [name, open] of Object.entries(databases)) {
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

    test("a first request that never ended is carried out again after two minutes", async () => {
      expect(await store.remember("user:a", "lost", "d", 5000)).toEqual({ is: "new" })
      expect(await other.remember("user:a", "lost", "d", 124_000)).toEqual({ is: "running" })
      expect(await other.remember("user:a", "lost", "d", 125_000)).toEqual({ is: "new" })
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
      expect(await store.due(99, 10)).toEqual([])
      expect(await store.due(100, 10)).toEqual(["due"])
      expect(await store.renewCall("called", "a", 3, 300)).toBe(true)
      expect(await store.renewCall("called", "b", 3, 900)).toBe(false)
      expect(await store.renewCall("called", "a", 2, 900)).toBe(false)
      expect(await store.due(250, 10)).toEqual(["due"])
      expect((await store.due(300, 10)).toSorted()).toEqual(["called", "due"])
    })

    test("twenty claims at the same time from two connections get different sandboxes, and the others none", async () => {
      const running = { ...newLife, wanted: "running", phase: "running", ref: "r" } as const
      const entry = (id: string) => ({
        ...session(id),
        tenant: "pool",
        kind: "pool" as const,
        poolKey: "k1",
      })
      for (let number = 0; number < 5; number += 1)
        await store.add(entry(`warm${number}`), running, number)
      await store.add({ ...entry("other-version"), poolKey: "k0" }, running, 0)
      await store.add(entry("not-yet"), { ...running, phase: "booting" }, 0)
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

    test("ten claims for one thread at the same time take one sandbox", async () => {
      const running = { ...newLife, wanted: "running", phase: "running", ref: "r" } as const
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

    test("a lease has one owner until its time", async () => {
      expect(await store.lease("sweep", "a", 0, 100)).toBe(true)
      expect(await other.lease("sweep", "b", 50, 150)).toBe(false)
      expect(await store.lease("sweep", "a", 60, 160)).toBe(true)
      expect(await other.lease("sweep", "b", 160, 260)).toBe(true)
    })

    test("a forgotten session is gone", async () => {
      await store.add(session("gone"), newLife, 0)
      await store.forget("gone")
      expect(await other.find("gone")).toBeUndefined()
      expect((await store.list()).map(({ id }) => id)).not.toContain("gone")
    })
  })
}

test("the SQLite file is readable for its owner only", () => {
  expect(statSync(join(folder, "fleet.db")).mode & 0o777).toBe(0o600)
})
