/** Rows of access over the Sql port: API keys, members, share links, the audit log. */
import { beforeEach, describe, expect, test } from "bun:test"
import { createApiKeys } from "../../../src/hub/access/api-keys.ts"
import { createAudit } from "../../../src/hub/access/audit.ts"
import { authenticate } from "../../../src/hub/access/authenticate.ts"
import { createMembers } from "../../../src/hub/access/members.ts"
import { createShareLinks } from "../../../src/hub/access/share-links.ts"
import { createJwtVerifier, type JwtVerifier } from "../../../src/hub/access/verify-jwt.ts"
import { hashOf } from "../../../src/hub/keys.ts"
import { openBunSql } from "../../../src/hub/hosts/bun/sql.ts"
import type { Sql } from "../../../src/hub/session/ports.ts"
import { createManualClock, type ManualClock } from "../../kit/clock.ts"
import { callers } from "./principals.ts"

const HOUR = 60 * 60_000
let sql: Sql
let clock: ManualClock

beforeEach(() => {
  sql = openBunSql(":memory:")
  clock = createManualClock(1_000_000)
})

/** Everything in the database as one text. */
const contents = () =>
  JSON.stringify(
    sql
      .all<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .map(({ name }) => sql.all(`SELECT * FROM ${name}`)),
  )

describe("API keys", () => {
  const make = (expiresAt?: number) =>
    createApiKeys(sql, clock.now).create({
      owner: "user:alice",
      name: "CI",
      scopes: ["sessions:read", "keys"],
      ...(expiresAt !== undefined && { expiresAt }),
    })

  test("a new key has 256 random bits and acts as its owner with its scopes", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key, row } = await make()
    expect(key).toMatch(/^spk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/)
    expect(row).toEqual({
      prefix: key.slice(4, 16),
      owner: "user:alice",
      name: "CI",
      scopes: ["sessions:read", "keys"],
      createdAt: 1_000_000,
    })
    expect(await keys.verify(key)).toEqual({
      kind: "person",
      sub: "alice",
      key: row.prefix,
      name: "CI",
      scopes: ["sessions:read", "keys"],
    })
  })
  test("a key of an org acts as a member without a sub", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key } = await keys.create({ owner: "org:acme", name: "bot", scopes: [] })
    const found = await keys.verify(key)
    expect(found?.org).toBe("acme")
    expect(found?.sub).toBeUndefined()
  })
  test("the database holds the hash of a key and not the key", async () => {
    const { key } = await make()
    expect(contents()).toContain(await hashOf(key))
    expect(contents()).not.toContain(key.slice(17))
  })
  test("a changed, cut or invented key is refused", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key } = await make()
    const other = await make()
    const swapped = key.slice(0, 17) + other.key.slice(17)
    const changed = key.slice(0, -1) + (key.endsWith("A") ? "B" : "A")
    const invented = `spk_000000000000_${"A".repeat(43)}`
    for (const wrong of [
      "",
      "spk_",
      key.slice(0, -1),
      `${key}A`,
      ` ${key}`,
      `${key}\n`,
      swapped,
      changed,
      invented,
      key.slice(4),
      `spk_${"%".repeat(12)}_${"A".repeat(43)}`,
    ]) {
      expect(await keys.verify(wrong)).toBeUndefined()
    }
  })
  test("a revoked key is refused, and only its owner can revoke it", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key, row } = await make()
    expect(keys.revoke("user:bob", row.prefix)).toEqual([])
    expect(await keys.verify(key)).toBeDefined()
    expect(keys.revoke("user:alice", row.prefix)).toEqual([row.prefix])
    expect(keys.revoke("user:alice", row.prefix)).toEqual([])
    expect(await keys.verify(key)).toBeUndefined()
    expect(keys.list("user:alice")[0]?.revokedAt).toBe(1_000_000)
  })
  test("a key is refused from the moment it expires", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key } = await make(1_000_000 + HOUR)
    clock.advance(HOUR - 1)
    expect((await keys.verify(key))?.expiresAt).toBe(1_000_000 + HOUR)
    clock.advance(1)
    expect(await keys.verify(key)).toBeUndefined()
  })
  test("the last use is written at most once a minute", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key } = await make()
    const lastUsed = () => keys.list("user:alice")[0]?.lastUsedAt
    expect(lastUsed()).toBeUndefined()
    await keys.verify(key)
    expect(lastUsed()).toBe(1_000_000)
    clock.advance(59_999)
    await keys.verify(key)
    expect(lastUsed()).toBe(1_000_000)
    clock.advance(1)
    await keys.verify(key)
    expect(lastUsed()).toBe(1_060_000)
  })
  test("a list holds the keys of one owner", async () => {
    const keys = createApiKeys(sql, clock.now)
    await make()
    await keys.create({ owner: "user:bob", name: "b", scopes: [] })
    expect(keys.list("user:alice").map(({ name }) => name)).toEqual(["CI"])
    expect(keys.list("user:carol")).toEqual([])
  })
  test("a scope that the code does not have any more is dropped from a stored key", async () => {
    const keys = createApiKeys(sql, clock.now)
    const { key } = await make()
    sql.run("UPDATE api_keys SET scopes = 'sessions:read everything'")
    expect((await keys.verify(key))?.scopes).toEqual(["sessions:read"])
  })
})

describe("members", () => {
  test("a member is added, changed and removed", () => {
    const members = createMembers(sql, clock.now)
    members.set("s1", "vera", "viewer", "user:alice")
    members.set("s1", "ed", "editor", "user:alice")
    members.set("s2", "vera", "owner", "user:bob")
    expect(members.of("s1")).toEqual([
      { sub: "ed", role: "editor" },
      { sub: "vera", role: "viewer" },
    ])
    members.set("s1", "vera", "editor", "user:alice")
    expect(members.of("s1").find(({ sub }) => sub === "vera")?.role).toBe("editor")
    expect(members.remove("s1", "vera")).toBeTrue()
    expect(members.remove("s1", "vera")).toBeFalse()
    expect(members.of("s1")).toEqual([{ sub: "ed", role: "editor" }])
    expect(members.of("s2")).toEqual([{ sub: "vera", role: "owner" }])
  })
  test("a sub with hidden characters is refused", () => {
    const members = createMembers(sql, clock.now)
    expect(() => members.set("s1", "ve\u200bra", "viewer", "x")).toThrow("sub: expected")
    expect(() => members.set("s1", "", "viewer", "x")).toThrow("sub: expected")
  })
  test("a session has at most 500 members, and a known member can still change", () => {
    const members = createMembers(sql, clock.now)
    for (let index = 0; index < 500; index += 1) members.set("s1", `m${index}`, "viewer", "x")
    expect(() => members.set("s1", "one-more", "viewer", "x")).toThrow("at most 500")
    members.set("s1", "m0", "editor", "x")
    expect(members.of("s1").length).toBe(500)
  })
})

describe("share links", () => {
  test("a link gives its role on its own session until it expires", async () => {
    const links = createShareLinks(sql, clock.now)
    const { token, link } = await links.create("s1", "viewer", HOUR, "user:alice")
    expect(await links.verify("s1", token)).toMatchObject({
      kind: "share-link",
      session: "s1",
      role: "viewer",
      link: link.id,
      scopes: ["sessions:read"],
      expiresAt: 1_000_000 + HOUR,
    })
    expect(await links.verify("s2", token)).toBeUndefined()
    clock.advance(HOUR)
    expect(await links.verify("s1", token)).toBeUndefined()
  })
  test("a revoked link is refused and stays in the list", async () => {
    const links = createShareLinks(sql, clock.now)
    const { token, link } = await links.create("s1", "editor", HOUR, "user:alice")
    expect(links.revoke("s2", link.id)).toBeFalse()
    expect(await links.verify("s1", token)).toBeDefined()
    expect(links.isActive("s1", link.id)).toBeTrue()
    expect(links.isActive("s2", link.id)).toBeFalse()
    expect(links.revoke("s1", link.id)).toBeTrue()
    expect(links.isActive("s1", link.id)).toBeFalse()
    expect(await links.verify("s1", token)).toBeUndefined()
    expect(links.revoke("s1", link.id)).toBeFalse()
    expect(links.list("s1")).toMatchObject([{ id: link.id, role: "editor", revokedAt: 1_000_000 }])
  })
  test("a link with another secret, or moved to another session, is refused", async () => {
    const links = createShareLinks(sql, clock.now)
    const first = await links.create("s1", "viewer", HOUR, "x")
    const second = await links.create("s2", "editor", HOUR, "x")
    const mixed = first.token.slice(0, 17) + second.token.slice(17)
    for (const wrong of ["", "sps_", mixed, `${first.token}A`, first.token.slice(0, -1)]) {
      expect(await links.verify("s1", wrong)).toBeUndefined()
    }
  })
  test("the database holds the hash of a link and not its token", async () => {
    const { token } = await createShareLinks(sql, clock.now).create("s1", "viewer", HOUR, "x")
    expect(contents()).not.toContain(token.slice(17))
  })
  test("a link must expire within 30 days", async () => {
    const links = createShareLinks(sql, clock.now)
    for (const lifetime of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 31 * 24 * HOUR]) {
      const refused = links.create("s1", "viewer", lifetime, "x").then(
        () => "",
        (error: unknown) => String(error),
      )
      expect(await refused).toContain("within 30 days")
    }
  })
})

describe("the audit log", () => {
  const fill = (count: number) => {
    const audit = createAudit(sql, clock.now)
    for (let index = 0; index < count; index += 1) {
      audit.append({
        owner: index % 2 === 0 ? "user:alice" : "user:bob",
        principal: callers.owner,
        action: "verb:prompt",
        session: `s${index}`,
        from: "192.0.2.1",
      })
    }
    return audit
  }

  test("an entry names who, what, which session, when and from where, and nothing else", () => {
    expect(fill(1).list("user:alice").entries).toEqual([
      {
        place: 1,
        at: 1_000_000,
        who: "user:alice",
        action: "verb:prompt",
        session: "s0",
        from: "192.0.2.1",
      },
    ])
  })
  test("pages go from new to old and hold every entry of one owner once", () => {
    const audit = fill(25)
    const seen: string[] = []
    for (let cursor: number | undefined, pages = 0; pages < 10; pages += 1) {
      const page = audit.list("user:alice", cursor, 5)
      seen.push(...page.entries.map(({ session }) => session ?? ""))
      cursor = page.next
      if (cursor === undefined) break
    }
    expect(seen).toEqual(Array.from({ length: 13 }, (_, index) => `s${24 - index * 2}`))
  })
  test("a limit that makes no sense is brought into range", () => {
    const audit = fill(20)
    expect(audit.list("user:alice", undefined, -5).entries.length).toBe(1)
    expect(audit.list("user:alice", undefined, Number.NaN).entries.length).toBe(1)
    expect(audit.list("user:alice", undefined, 1e9).entries.length).toBe(10)
  })
  test("the database refuses to change or delete an entry", () => {
    fill(2)
    expect(() => sql.run("UPDATE audit SET who = 'x'")).toThrow("append-only")
    expect(() => sql.run("DELETE FROM audit")).toThrow("append-only")
  })
})

describe("the retention of the audit log", () => {
  const retention = { entries: 5, ageMs: 10_000 }
  const append = (audit: ReturnType<typeof createAudit>, owner: "user:alice" | "user:bob") =>
    audit.append({ owner, principal: callers.owner, action: "verb:prompt" })
  const count = (audit: ReturnType<typeof createAudit>, owner: "user:alice" | "user:bob") =>
    audit.list(owner).entries.length

  test("each owner keeps its newest entries, and another owner's activity removes none of them", () => {
    const audit = createAudit(sql, clock.now, retention)
    for (let index = 0; index < 3; index += 1) append(audit, "user:alice")
    for (let index = 0; index < 50; index += 1) append(audit, "user:bob")
    expect(count(audit, "user:alice")).toBe(3)
    expect(audit.list("user:bob").entries.map(({ place }) => place)).toEqual([53, 52, 51, 50, 49])
  })
  test("entries that are too old are removed with the next entry", () => {
    const audit = createAudit(sql, clock.now, retention)
    append(audit, "user:alice")
    append(audit, "user:bob")
    clock.advance(10_001)
    append(audit, "user:alice")
    expect(count(audit, "user:alice")).toBe(1)
    expect(count(audit, "user:bob")).toBe(1)
  })
  test("the database refuses to delete an entry within the retention, also when the program asks for it", () => {
    const audit = createAudit(sql, clock.now, retention)
    for (let index = 0; index < 6; index += 1) append(audit, "user:alice")
    expect(() => sql.run("DELETE FROM audit WHERE place = 2")).toThrow("append-only")
    expect(() => sql.run("DELETE FROM audit WHERE owner = 'user:alice'")).toThrow("append-only")
    expect(count(audit, "user:alice")).toBe(5)
  })
  test("entries of an older version are kept as the oldest", () => {
    sql.run(`CREATE TABLE audit (
      place INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL,
      action TEXT NOT NULL, session TEXT, source TEXT)`)
    sql.run(
      "INSERT INTO audit (owner, at, who, action) VALUES ('user:alice', 1000000, 'x', 'verb:prompt')",
    )
    const audit = createAudit(sql, clock.now, retention)
    for (let index = 0; index < 4; index += 1) append(audit, "user:alice")
    expect(audit.list("user:alice").entries.at(-1)?.who).toBe("x")
    append(audit, "user:alice")
    expect(count(audit, "user:alice")).toBe(5)
  })
})

describe("authentication", () => {
  const secret = "a secret of at least thirty-two bytes"
  const setUp = async (verifyJwt?: JwtVerifier) => {
    const apiKeys = createApiKeys(sql, clock.now)
    const shareLinks = createShareLinks(sql, clock.now)
    const options = {
      clientTokenHash: await hashOf("operator-token"),
      verifyJwt,
      apiKeys,
      shareLinks,
    }
    return { apiKeys, shareLinks, options }
  }

  test("the client token makes the operator, with every scope", async () => {
    const { options } = await setUp()
    expect(await authenticate(options, "operator-token", "s1")).toEqual({
      ok: true,
      principal: callers.operator,
    })
    const closed = { ...options, clientTokenHash: undefined }
    expect(await authenticate(closed, "operator-token", "s1")).toMatchObject({ status: 401 })
  })
  test("an API key and a share link make their principals", async () => {
    const { options, apiKeys, shareLinks } = await setUp()
    const { key } = await apiKeys.create({ owner: "user:alice", name: "k", scopes: [] })
    const { token } = await shareLinks.create("s1", "viewer", HOUR, "x")
    expect(await authenticate(options, key, undefined)).toMatchObject({
      principal: { kind: "person", sub: "alice" },
    })
    expect(await authenticate(options, token, "s1")).toMatchObject({
      principal: { kind: "share-link", session: "s1" },
    })
    expect(await authenticate(options, token, "s2")).toMatchObject({ status: 401 })
    expect(await authenticate(options, token, undefined)).toMatchObject({ status: 401 })
  })
  test("a missing or unknown token gets 401", async () => {
    const verifyJwt = createJwtVerifier({ secret }, { now: clock.now, fetch })
    const { options } = await setUp(verifyJwt)
    for (const token of ["", "x", "operator-toke", "spk_x", "sps_x", "a.b.c"]) {
      expect(await authenticate(options, token, "s1")).toMatchObject({ ok: false, status: 401 })
    }
  })
  test("a key set that cannot be fetched gets 503", async () => {
    const { options } = await setUp(async () => ({
      ok: false,
      reason: "unavailable",
      problem: "x",
    }))
    expect(await authenticate(options, "a.b.c", "s1")).toMatchObject({ ok: false, status: 503 })
  })
})
