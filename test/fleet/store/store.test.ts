/** One contract for both databases: SQLite, and a real PostgreSQL server with two independent connections. */
import { Database } from "bun:sqlite"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createRefusal } from "../../../src/fleet/core/quota.ts"
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

    test("a claim without a thread can be put back, and a session that the hub has given cannot", async () => {
      const running = { ...newLife, wanted: "running", phase: "running", ref: "r" } as const
      const entry = { ...session("back"), tenant: "pool", kind: "pool" as const, poolKey: "k3" }
      await store.add(entry, running, 0)
      const to = { tenant: "user:b" }
      expect(await store.claim("k3", to, 1)).toMatchObject({ id: "back", tenant: "user:b" })
      expect(await other.claim("k3", to, 1)).toBeUndefined()
      await other.unclaim("back", "pool")
      expect(await store.find("back")).toMatchObject({ kind: "pool", tenant: "pool" })
      expect((await other.claim("k3", to, 2))?.id).toBe("back")
      await store.bind("back")
      await store.unclaim("back", "pool")
      expect(await other.find("back")).toMatchObject({ kind: "hub", tenant: "user:b" })
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

    test("a session is found by the ref of its present sandbox only", async () => {
      await store.add(session("by-ref"), newLife, 0)
      expect(await store.findRef("sb-1")).toBeUndefined()
      const to = (ref: string | undefined) =>
        store.change("by-ref", 1, (row) => ({ ...same(row), life: { ...row.life, ref } }))
      await to("sb-1")
      expect((await other.findRef("sb-1"))?.id).toBe("by-ref")
      await to("sb-2")
      expect(await other.findRef("sb-1")).toBeUndefined()
      expect((await other.findRef("sb-2"))?.id).toBe("by-ref")
      await to(undefined)
      expect(await other.findRef("sb-2")).toBeUndefined()
      await store.add(session("with-ref"), { ...newLife, ref: "sb-3" }, 0)
      expect((await other.findRef("sb-3"))?.id).toBe("with-ref")
    })

    test("pages contain every session once and in order, also if sessions of one moment are on two pages", async () => {
      for (const id of ["p1", "p2", "p3", "p4", "p5"])
        await store.add(session(id), newLife, id === "p5" ? 5001 : 5000)
      const all = (await store.list()).map(({ id }) => id)
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
      expect(found.slice(-5)).toEqual(["p1", "p2", "p3", "p4", "p5"])
    })

    test("the sessions of an owner that have a sandbox or a call are read without the others", async () => {
      const ofC = (id: string) => ({ ...session(id), tenant: "user:c" })
      await store.add(ofC("c-ended"), { ...newLife, phase: "ended" }, 0)
      await store.add(ofC("c-runs"), { ...newLife, phase: "running", ref: "c1" }, 0)
      await store.add(ofC("c-called"), newLife, 0)
      await store.change("c-called", 1, (row) => ({ ...same(row), caller: "replica" }))
      const ids = (await other.activeOf("user:c")).map(({ id }) => id)
      expect(ids.toSorted()).toEqual(["c-called", "c-runs"])
    })

    test("sessions are counted by provider and phase", async () => {
      const count = async () =>
        (await other.phases()).find(({ phase }) => phase === "paused")?.count ?? 0
      const before = await count()
      await store.add(session("paused-1"), { ...newLife, phase: "paused", ref: "z1" }, 0)
      await store.add(session("paused-2"), { ...newLife, phase: "paused", ref: "z2" }, 0)
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

    test("the seconds of an owner's sandboxes add up for each day", async () => {
      await Promise.all([
        store.addSeconds("user:t", 20, 1.5),
        other.addSeconds("user:t", 20, 60),
        store.addSeconds("user:t", 21, 7),
      ])
      expect(await other.secondsOf("user:t", 20)).toBe(61.5)
      expect(await other.secondsOf("user:t", 22)).toBe(0)
      await store.purge(21 * 86_400_000)
      expect(await other.secondsOf("user:t", 20)).toBe(0)
      expect(await other.secondsOf("user:t", 21)).toBe(7)
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

test("a replica starts while another one has a transaction open on the table of sessions", async () => {
  const store = await openPostgresStore(postgres.url)
  await store.close()
  const sql = new Bun.SQL({ url: postgres.url, max: 1 })
  await sql.begin(async (transaction) => {
    await transaction`SELECT count(*) FROM sandbox_sessions`
    const started = await openPostgresStore(postgres.url)
    await started.close()
  })
  await sql.close()
})

test("a database that cannot be reached or does not answer is an error that names its host and no password", async () => {
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  const closed = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  closed.stop(true)
  for (const { port } of [silent, closed]) {
    const problem = await openPostgresStore(`postgres://me:pass-word@127.0.0.1:${port}/x`, 1).then(
      () => "opened",
      (error: unknown) => String(error),
    )
    expect(problem).toContain(`the database at 127.0.0.1:${port} (DATABASE_URL) cannot be used: `)
    expect(problem).not.toContain("pass-word")
  }
  silent.stop(true)
})

const VERSION_1 = {
  columns: "id, tenant, thread_key, provider, environment, life, rev, created_at, updated_at",
  table: (integer: string) => `CREATE TABLE sandbox_sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, thread_key TEXT, provider TEXT NOT NULL, environment TEXT NOT NULL,
    life TEXT NOT NULL, rev ${integer} NOT NULL, caller TEXT, call_until ${integer}, due_at ${integer},
    created_at ${integer} NOT NULL, updated_at ${integer} NOT NULL, UNIQUE (tenant, thread_key))`,
}
const oldLife = JSON.stringify({ ...newLife, phase: "running", ref: "sb-old" })

test("a PostgreSQL database of the first version is brought up to date by one of five replicas that start together", async () => {
  const admin = new Bun.SQL({ url: postgres.url, max: 1 })
  await admin.unsafe("CREATE DATABASE of_version_1")
  await admin.close()
  const url = postgres.url.replace(/\/postgres$/, "/of_version_1")
  const old = new Bun.SQL({ url, max: 1 })
  await old.unsafe(VERSION_1.table("BIGINT"))
  await old.unsafe(
    `INSERT INTO sandbox_sessions (${VERSION_1.columns}) VALUES ('s', 'user:a', NULL, 'noop', '{}', '${oldLife}', 0, 1, 1)`,
  )
  await old.close()
  const stores = await Promise.all(Array.from({ length: 5 }, () => openPostgresStore(url)))
  const deployments = new Set<string>()
  for (const store of stores) {
    expect((await store.findRef("sb-old"))?.id).toBe("s")
    deployments.add(await store.deployment())
    await store.close()
  }
  expect(deployments.size).toBe(1)
})

test("an SQLite database of the first version is brought up to date", async () => {
  const path = join(folder, "version-1.db")
  const db = new Database(path, { create: true })
  db.run(`${VERSION_1.table("INTEGER")} STRICT`)
  db.run(
    `INSERT INTO sandbox_sessions (${VERSION_1.columns}) VALUES ('s', 'user:a', NULL, 'noop', '{}', '${oldLife}', 0, 1, 1)`,
  )
  db.close()
  const store = openSqliteStore(path)
  expect(await store.findRef("sb-old")).toMatchObject({ id: "s", kind: "hub" })
  await store.close()
})

test("the SQLite file is readable for its owner only", () => {
  expect(statSync(join(folder, "fleet.db")).mode & 0o777).toBe(0o600)
})
