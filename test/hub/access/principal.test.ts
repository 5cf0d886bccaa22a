/** Claims, owners and authors: from verified claims to a principal, and from a principal to the fields of a prompt. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { authorFields } from "../../../src/hub/access/author.ts"
import { ownersOf, parseOwner } from "../../../src/hub/access/ownership.ts"
import { hasExpired, nameOf, personFromClaims } from "../../../src/hub/access/principal.ts"
import { callers, person } from "./principals.ts"

const seed = Date.now() % 2 ** 31

describe("claims", () => {
  test("scopes are read from a text with spaces and from an array", () => {
    const expected = ["sessions:read", "keys"] as const
    expect(personFromClaims({ sub: "a", scope: "openid sessions:read keys keys" })?.scopes).toEqual(
      [...expected],
    )
    expect(
      personFromClaims({ sub: "a", scope: ["sessions:read", "keys", 7, "root"] })?.scopes,
    ).toEqual([...expected])
  })
  test("claims without a scope give a person without scopes", () => {
    expect(personFromClaims({ sub: "a" })?.scopes).toEqual([])
    expect(personFromClaims({ sub: "a", scope: { "sessions:read": true } })?.scopes).toEqual([])
  })
  test("claims become a person with org, name, email and expiry", () => {
    expect(
      personFromClaims({ sub: "a|1", org: "acme", name: "Ann", email: "ann@x.test", exp: 5 }),
    ).toEqual({
      kind: "person",
      sub: "a|1",
      org: "acme",
      name: "Ann",
      email: "ann@x.test",
      scopes: [],
      expiresAt: 5000,
    })
  })
  test("a token cannot name the operator's own owner or the owner of the warm pool", () => {
    expect(personFromClaims({ sub: "local" })).toBeUndefined()
    expect(personFromClaims({ sub: "a", org: "sandpiper-pool" })).toBeUndefined()
  })
  test("a sub or org that is not a plain identifier is refused", () => {
    for (const sub of [undefined, "", 7, " a", "a ", "a\nb", "a\0", "ä", "x".repeat(256), ["a"]]) {
      expect(personFromClaims({ sub })).toBeUndefined()
    }
    for (const org of ["", 7, null, "a\u200bb"]) {
      expect(personFromClaims({ sub: "a", org })).toBeUndefined()
    }
  })
  test("a name cannot carry control characters or forge a git identity", () => {
    const found = personFromClaims({ sub: "a", name: "Eve <root@x.test>\n\u202eauthor Bob\0" })
    expect(found?.name).toBe("Eve root@x.testauthor Bob")
    expect(personFromClaims({ sub: "a", name: "\n<>" })?.name).toBeUndefined()
  })
  test(`claims of any shape never throw (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.anything()), (claims) => {
        personFromClaims(claims)
        personFromClaims({ ...claims, sub: "a" })
      }),
      { seed },
    )
  })
})

describe("owners", () => {
  test("an owner is user: or org: and an identifier", () => {
    expect(parseOwner("user:a:b|c")).toBe("user:a:b|c")
    expect(parseOwner("org:acme")).toBe("org:acme")
    for (const text of ["", "alice", "user:", "org: x", "User:a", "team:x", "user:a\n"]) {
      expect(parseOwner(text)).toBeUndefined()
    }
  })
  test("a person lists its own sessions and those of its org, the operator lists all", () => {
    expect(ownersOf(callers.operator)).toBe("all")
    expect(ownersOf(callers.orgMember)).toEqual(["user:otto", "org:acme"])
    expect(ownersOf(callers.orgKey)).toEqual(["org:acme"])
    expect(ownersOf(callers.runner)).toEqual([])
    expect(ownersOf(callers.viewerLink)).toEqual([])
  })
})

describe("names of principals", () => {
  test("every kind of principal has a name of its own", () => {
    expect(nameOf(callers.operator)).toBe("operator")
    expect(nameOf(callers.owner)).toBe("user:alice")
    expect(nameOf({ ...callers.owner, key: "abc" })).toBe("key:abc:user:alice")
    expect(nameOf({ ...callers.orgKey, key: "abc" })).toBe("key:abc:org:acme")
    expect(nameOf(callers.runner)).toBe("runner:child")
    expect(nameOf(callers.viewerLink)).toBe("share-link:link1")
  })
  test("a principal expires at its time and one without a time never does", () => {
    expect(hasExpired(callers.viewerLink, 9)).toBeFalse()
    expect(hasExpired(callers.viewerLink, 10)).toBeTrue()
    expect(hasExpired(callers.operator, Number.MAX_SAFE_INTEGER)).toBeFalse()
  })
})

describe("the author of a prompt", () => {
  const forged = { authorId: "user:bob", authorName: "Bob", gitName: "Bob", gitEmail: "b@x.test" }

  test("the fields of a client are ignored without the scope act-as", () => {
    const ann = { ...person("ann", ["sessions:write"]), name: "Ann", email: "ann@x.test" }
    expect(authorFields(ann, forged)).toEqual({
      authorId: "user:ann",
      authorName: "Ann",
      authorEmail: "ann@x.test",
      gitName: "Ann",
      gitEmail: "ann@x.test",
    })
    expect(authorFields(callers.editorLink, forged)).toEqual({ authorId: "share-link:link2" })
  })
  test("the operator names another author by its scope act-as", () => {
    expect(authorFields(callers.operator, forged)).toEqual(forged)
    expect(authorFields(callers.operator, {})).toEqual({})
  })
})
