/**
 * The store on both databases: SQLite, and a real PostgreSQL server with two independent connections. The tests share the server and
 * one database of each kind; each has its own sessions, owners and keys.
 */
import { Database } from "bun:sqlite"
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { rowOf } from "../../../src/fleet/store/life-row.ts"
import { newLife } from "../../../src/fleet/core/life.ts"
import { createChanges } from "../../../src/fleet/store/changes.ts"
import type { FleetStore } from "../../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../../src/fleet/store/postgres-store.ts"
import { openSqliteStore } from "../../../src/fleet/store/sqlite-store.ts"
import { freePort } from "../../kit/free-port.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { formerLives, formerSchema } from "../kit/former-lives.ts"
import { startPostgres, type TestPostgres } from "../kit/postgres.ts"
import { storeContract } from "../store-contract.ts"

const folder = mkdtempSync(join(tmpdir(), "fleet-store-"))
let postgres: TestPostgres

beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(async () => {
  await postgres.stop()
  rmSync(folder, { recursive: true, force: true })
})

const changes = createChanges()
const databases: Readonly<Record<string, () => Promise<FleetStore>>> = {
  SQLite: async () => openSqliteStore(join(folder, "fleet.db"), changes),
  PostgreSQL: () => openPostgresStore(postgres.url),
}

for (const [name, open] of Object.entries(databases)) storeContract(name, open)

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

test("a store whose connection for notifications is cut hears of changes again", async () => {
  const [store, other] = [
    await openPostgresStore(postgres.url),
    await openPostgresStore(postgres.url),
  ]
  await untilTrue(async () => store.pollMs() > 1000, "notifications arrive")
  const session = { id: "cut", tenant: "user:a", provider: "noop", environment: {} } as const
  await other.add(session, newLife, 0)
  const told: (string | undefined)[] = []
  store.watch((id) => void told.push(id))
  const sql = new Bun.SQL({ url: postgres.url, max: 1 })
  await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE query ILIKE 'LISTEN%' AND pid <> pg_backend_pid()`
  await sql.close()
  // Notifications of the time between are lost: any session may have changed.
  await untilTrue(async () => told.includes(undefined), "the connection is made again")
  await untilTrue(async () => store.pollMs() > 1000, "notifications arrive again")
  await other.change("cut", 1, (row) => ({ ...row, dueAt: 5 }))
  await untilTrue(async () => told.includes("cut"), "a change of the other store")
  await store.close()
  await other.close()
})

const connectionsOf = async (sql: Bun.SQL, name: string): Promise<number> => {
  const rows = await sql`SELECT pid FROM pg_stat_activity WHERE application_name = ${name}`
  return rows.length
}

test("a closed store leaves no connection behind", async () => {
  const store = await openPostgresStore(`${postgres.url}?application_name=closing`)
  await untilTrue(async () => store.pollMs() > 1000, "notifications arrive")
  await store.close()
  const sql = new Bun.SQL({ url: postgres.url, max: 1 })
  await untilTrue(
    async () => (await connectionsOf(sql, "closing")) === 0,
    "the connections have ended",
  )
  await sql.close()
})

test("a change of a row that is deleted meanwhile on PostgreSQL changes nothing", async () => {
  const store = await openPostgresStore(postgres.url)
  const session = { id: "deleted", tenant: "user:a", provider: "noop", environment: {} } as const
  await store.add(session, newLife, 0)
  const sql = new Bun.SQL({ url: postgres.url, max: 1 })
  const isDecided = Promise.withResolvers<void>()
  let changing: Promise<unknown> | undefined
  await sql.begin(async (transaction) => {
    await transaction`DELETE FROM sandbox_sessions WHERE id = 'deleted'`
    // It reads the row, and its write waits for the end of this transaction.
    changing = store.change("deleted", 1, (row) => {
      isDecided.resolve()
      return { ...row, dueAt: 5 }
    })
    await isDecided.promise
  })
  expect(await changing).toBeUndefined()
  await sql.close()
  await store.close()
})

const endedLife = JSON.stringify({ ...rowOf(newLife), phase: "ended", wanted: "ended" })

/** Ten thousand sessions of two owners, of which few are present, have a sandbox, a call or a place in the pool. */
const manySessions = (numbers: string) => `INSERT INTO sandbox_sessions
    (id, tenant, provider, environment, life, ref, rev, created_at, updated_at, kind, pool_key, caller, call_until, due_at)
  SELECT 's' || i, CASE WHEN i % 2 = 0 THEN 'user:a' ELSE 'user:b' END, 'noop', '{}',
    CASE WHEN i % 40 = 0 THEN '${JSON.stringify(rowOf(newLife))}' ELSE '${endedLife}' END,
    CASE WHEN i % 40 = 0 THEN 'r' || i END, 0, i, i, CASE WHEN i % 1000 = 0 THEN 'pool' ELSE 'hub' END,
    CASE WHEN i % 1000 = 0 THEN 'k' END, CASE WHEN i % 200 = 0 THEN 'x' END, CASE WHEN i % 200 = 0 THEN 500 END,
    CASE WHEN i % 40 = 0 THEN 1000 + i END FROM ${numbers}`

/** The reads that happen every second or minute or in a request, and how many sessions each finds. */
const frequentReads = async (store: FleetStore) => [
  (await store.activeOf("user:a")).length,
  (await store.due(499, 200)).length,
  (await store.due(500, 200)).length,
  (await store.pooled()).length,
  (await store.claim("k", { tenant: "user:c" }, 1)) === undefined,
  (await store.findRef("r40"))?.id,
  (await store.page(undefined, 3)).length,
  (await store.present()).length,
  await store.phases(),
  (await store.endedToTidy(50, 50, 200)).length,
]
const phases = [{ provider: "noop", phase: "absent", count: 250 }]
const found = [250, 0, 50, 10, true, "s40", 3, 250, phases, 49]

test("the frequent reads of PostgreSQL use an index among ten thousand sessions", async () => {
  const admin = new Bun.SQL({ url: postgres.url, max: 1 })
  await admin.unsafe("CREATE DATABASE of_many")
  await admin.close()
  const url = postgres.url.replace(/\/postgres$/, "/of_many")
  const first = await openPostgresStore(url)
  await first.close()
  const sql = new Bun.SQL({ url, max: 1 })
  await sql.unsafe(manySessions("generate_series(1, 10000) AS i"))
  await sql`ANALYZE`
  const scans = async () => {
    const [row] = await sql`SELECT seq_scan AS whole, idx_scan AS by_index FROM pg_stat_user_tables
      WHERE relname = 'sandbox_sessions'`
    return { whole: Number(row.whole), byIndex: Number(row.by_index) }
  }
  const before = await scans()
  const store = await openPostgresStore(`${url}?application_name=many`)
  expect(await frequentReads(store)).toEqual(found)
  await store.close()
  // A connection reports what it has counted before it ends.
  await untilTrue(
    async () => (await connectionsOf(sql, "many")) === 0,
    "the connections have ended",
  )
  const after = await scans()
  expect(after.byIndex).toBeGreaterThanOrEqual(before.byIndex + 10)
  expect(after.whole).toBe(before.whole)
  await sql.close()
})

test("the frequent reads of SQLite use an index among ten thousand sessions", async () => {
  const path = join(folder, "many.db")
  const store = openSqliteStore(path)
  const db = new Database(path)
  const numbers =
    "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) SELECT i FROM n)"
  db.run(manySessions(numbers))
  expect(await frequentReads(store)).toEqual(found)
  const plan = (query: string) =>
    db
      .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${query}`)
      .all()
      .map(({ detail }) => detail)
  for (const condition of [
    "tenant = 'a' AND (ref IS NOT NULL OR caller IS NOT NULL OR admitted = 1)",
    "due_at <= 1 OR call_until <= 1 ORDER BY +due_at LIMIT 200",
    "kind IN ('pool', 'claimed')",
    "kind = 'pool' AND pool_key = 'k' ORDER BY created_at, id",
  ])
    expect(plan(`SELECT * FROM sandbox_sessions WHERE ${condition}`).join()).not.toContain("SCAN")
  const phase = "json_extract(life, '$.phase')"
  for (const [condition, index] of [
    [`${phase} <> 'ended' ORDER BY created_at, id`, "present"],
    [`${phase} = 'ended' AND tidy_at IS NULL AND updated_at <= 1`, "ended"],
    [`${phase} = 'ended' AND tidy_at <= 1`, "ended"],
  ] as const)
    expect(plan(`SELECT * FROM sandbox_sessions WHERE ${condition}`).join()).toContain(
      `INDEX sandbox_sessions_${index}`,
    )
  db.close()
  await store.close()
})

test("a database that cannot be reached or does not answer is an error that names its host and no password", async () => {
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  for (const port of [silent.port, freePort()]) {
    const problem = await openPostgresStore(`postgres://me:pass-word@127.0.0.1:${port}/x`, 1).then(
      () => "opened",
      (error: unknown) => String(error),
    )
    expect(problem).toContain(`the database at 127.0.0.1:${port} (DATABASE_URL) cannot be used: `)
    expect(problem).not.toContain("pass-word")
  }
  silent.stop(true)
})

interface LifeText {
  readonly id: string
  readonly life: string
}

const VERSION_1 = {
  columns: "id, tenant, thread_key, provider, environment, life, rev, created_at, updated_at",
  table: (integer: string) => `CREATE TABLE sandbox_sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, thread_key TEXT, provider TEXT NOT NULL, environment TEXT NOT NULL,
    life TEXT NOT NULL, rev ${integer} NOT NULL, caller TEXT, call_until ${integer}, due_at ${integer},
    created_at ${integer} NOT NULL, updated_at ${integer} NOT NULL, UNIQUE (tenant, thread_key))`,
}
/** The snapshots of versions that did not store of which sandbox they are. */
const oldSnapshots = (integer: "BIGINT" | "INTEGER") =>
  `CREATE TABLE snapshots (id TEXT PRIMARY KEY, session TEXT NOT NULL, created_at ${integer} NOT NULL)`
const oldSnapshot = "INSERT INTO snapshots VALUES ('snap-old', 's', 1)"
/** The sandbox of before there were records counts from the last change of its session. */
const recordOfOld = [{ ref: "sb-old", generation: 0, createdAt: 1, countedAt: 1, seconds: 0 }]
const oldLife = JSON.stringify({ ...rowOf(newLife), phase: "running", ref: "sb-old" })

test("a PostgreSQL database of the first version is brought up to date by one of five replicas that start together", async () => {
  const admin = new Bun.SQL({ url: postgres.url, max: 1 })
  await admin.unsafe("CREATE DATABASE of_version_1")
  await admin.close()
  const url = postgres.url.replace(/\/postgres$/, "/of_version_1")
  const old = new Bun.SQL({ url, max: 1 })
  await old.unsafe(VERSION_1.table("BIGINT"))
  for (const statement of [oldSnapshots("BIGINT"), oldSnapshot]) await old.unsafe(statement)
  await old.unsafe(
    `INSERT INTO sandbox_sessions (${VERSION_1.columns}) VALUES ('s', 'user:a', NULL, 'noop', '{}', '${oldLife}', 0, 1, 1)`,
  )
  await old.close()
  const stores = await Promise.all(Array.from({ length: 5 }, () => openPostgresStore(url)))
  const deployments = new Set<string>()
  for (const store of stores) {
    expect((await store.findRef("sb-old"))?.id).toBe("s")
    expect(await store.history("s", "user:a", 10)).toMatchObject(recordOfOld)
    expect(await store.snapshots()).toEqual([{ id: "snap-old", session: "s", createdAt: 1 }])
    deployments.add(await store.deployment())
    await store.close()
  }
  expect(deployments.size).toBe(1)
})

test("an SQLite database of the first version is brought up to date", async () => {
  const path = join(folder, "version-1.db")
  const db = new Database(path, { create: true })
  db.run(`${VERSION_1.table("INTEGER")} STRICT`)
  for (const statement of [`${oldSnapshots("INTEGER")} STRICT`, oldSnapshot]) db.run(statement)
  db.run(
    `INSERT INTO sandbox_sessions (${VERSION_1.columns}) VALUES ('s', 'user:a', NULL, 'noop', '{}', '${oldLife}', 0, 1, 1)`,
  )
  db.close()
  const store = openSqliteStore(path)
  expect(await store.findRef("sb-old")).toMatchObject({ id: "s", kind: "hub" })
  expect(await store.snapshots()).toEqual([{ id: "snap-old", session: "s", createdAt: 1 }])
  expect(await store.history("s", "user:a", 10)).toMatchObject(recordOfOld)
  await store.close()
})

/** The rows of a version without phases, one for each of its lives. */
const formerRows = formerLives.map(({ row }, index) => ({ id: `former-${index}`, row }))
const insertFormer = ({ id, row }: (typeof formerRows)[number]) =>
  `INSERT INTO sandbox_sessions (${VERSION_1.columns})
    VALUES ('${id}', 'user:a', NULL, 'noop', '{}', '${JSON.stringify(row)}', 0, 1, 1)`

/** `texts`: what the database has of the lives. */
const readsFormer = async (
  store: FleetStore,
  texts: () => Promise<ReadonlyMap<string, string>>,
) => {
  for (const [index, { id }] of formerRows.entries()) {
    const life: unknown = (await store.find(id))?.life
    expect(life).toEqual(formerLives[index]?.life)
    await store.change(id, 2, (session) => session)
  }
  const written = await texts()
  expect(written.size).toBe(formerRows.length)
  for (const { id, row } of formerRows) {
    const text: unknown = JSON.parse(written.get(id) ?? "")
    expect(text).toEqual(row)
    const byFormer: unknown = formerSchema.parse(text)
    expect(byFormer).toEqual(text)
  }
}

test("the rows of a version without phases are read from PostgreSQL in every phase, and a replica of that version can read what is written", async () => {
  const admin = new Bun.SQL({ url: postgres.url, max: 1 })
  await admin.unsafe("CREATE DATABASE of_former")
  await admin.close()
  const url = postgres.url.replace(/\/postgres$/, "/of_former")
  const store = await openPostgresStore(url)
  const sql = new Bun.SQL({ url, max: 1 })
  for (const former of formerRows) await sql.unsafe(insertFormer(former))
  await readsFormer(store, async () => {
    const rows = (await sql`SELECT id, life FROM sandbox_sessions`) as readonly LifeText[]
    return new Map(rows.map(({ id, life }) => [id, life]))
  })
  await sql.close()
  await store.close()
})

test("the rows of a version without phases are read from SQLite in every phase, and that version can read what is written", async () => {
  const path = join(folder, "former.db")
  const store = openSqliteStore(path)
  const db = new Database(path)
  for (const former of formerRows) db.run(insertFormer(former))
  await readsFormer(store, async () => {
    const rows = db.query<LifeText, []>("SELECT id, life FROM sandbox_sessions").all()
    return new Map(rows.map(({ id, life }) => [id, life]))
  })
  db.close()
  await store.close()
})

test("the SQLite file is readable for its owner only", async () => {
  const path = join(folder, "of-the-owner.db")
  const store = openSqliteStore(path)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  await store.close()
})
