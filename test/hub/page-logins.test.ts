/** Login codes and logins of the page, in a real directory. */
import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as fc from "fast-check"
import {
  cookieSeconds,
  findLogin,
  IDLE_MS,
  isValid,
  MOST_MS,
  type PageLogin,
  withLogin,
} from "../../src/hub/page-login-state.ts"
import { issueLoginCode, openPageLogins } from "../../src/hub/page-logins.ts"

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})
const newState = () => {
  const folder = mkdtempSync(join(tmpdir(), "page-logins-"))
  folders.push(folder)
  return folder
}
const MINUTE = 60_000

test("a code logs in once, also when two processes read the same directory", () => {
  const state = newState()
  const code = issueLoginCode(state, 0)
  const [one, other] = [openPageLogins(state, () => 1), openPageLogins(state, () => 1)]
  expect(one.redeem(code)).toBeDefined()
  expect(one.redeem(code)).toBeUndefined()
  expect(other.redeem(code)).toBeUndefined()
})

test("a code is invalid after ten minutes, and so is a code that was never issued", () => {
  const state = newState()
  const code = issueLoginCode(state, 0)
  const logins = openPageLogins(state, () => 10 * MINUTE)
  expect(logins.redeem(code)).toBeUndefined()
  expect(logins.redeem("../logins.json")).toBeUndefined()
  expect(logins.redeem("")).toBeUndefined()
})

test("no secret is stored, and only the owner can read the files", () => {
  const state = newState()
  const unused = issueLoginCode(state, 0)
  const code = issueLoginCode(state, 0)
  const login = openPageLogins(state, () => 1).redeem(code)
  const files = readdirSync(join(state, "hub"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  expect(files).toHaveLength(2)
  for (const file of files) {
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const text = `${file} ${readFileSync(file, "utf8")}`
    for (const secret of [unused, code, login?.cookie ?? "?", login?.key ?? "?"])
      expect(text).not.toContain(secret)
  }
})

test("a login needs its cookie and its key, and survives a restart", () => {
  const state = newState()
  const [first, second] = [0, 0].map(() =>
    openPageLogins(state, () => 1).redeem(issueLoginCode(state, 0)),
  )
  if (!first || !second) throw new Error("no login")
  const logins = openPageLogins(state, () => 2)
  expect(logins.use([first.cookie], first.key)).toEqual({
    cookie: first.cookie,
    renewSeconds: undefined,
  })
  expect(logins.use([first.cookie], second.key)).toBeUndefined()
  expect(logins.use([second.cookie], first.key)).toBeUndefined()
  expect(logins.use([first.cookie], "")).toBeUndefined()
})

test("the cookie of a login is found among those of others", () => {
  const state = newState()
  const logins = openPageLogins(state, () => 1)
  const [first, second] = [0, 0].map(() => logins.redeem(issueLoginCode(state, 0)))
  const sent = ["0".repeat(64), second?.cookie ?? "", first?.cookie ?? ""]
  expect(logins.use(sent, first?.key ?? "")?.cookie).toBe(first?.cookie ?? "none")
  expect(logins.use(sent.slice(0, 2), first?.key ?? "")).toBeUndefined()
  expect(logins.use([], first?.key ?? "")).toBeUndefined()
})

test("a use renews a login for twelve hours, thirty days at most", () => {
  const state = newState()
  let now = 0
  const logins = openPageLogins(state, () => now)
  const login = logins.redeem(issueLoginCode(state, 0))
  if (!login) throw new Error("no login")
  expect(login.maxAgeSeconds).toBe(12 * 3600)
  const use = () => openPageLogins(state, () => now).use([login.cookie], login.key)
  for (now = 0; now < MOST_MS; now += IDLE_MS - 1) expect(use()).toBeDefined()
  now = MOST_MS - 1
  expect(use()).toBeDefined()
  now = MOST_MS
  expect(use()).toBeUndefined()
})

test("an unused login ends after twelve hours", () => {
  const state = newState()
  let now = 0
  const logins = openPageLogins(state, () => now)
  const login = logins.redeem(issueLoginCode(state, 0))
  now = IDLE_MS
  expect(logins.use([login?.cookie ?? ""], login?.key ?? "")).toBeUndefined()
})

test("logging out everywhere ends every login and every code", () => {
  const state = newState()
  const logins = openPageLogins(state, () => 1)
  const login = logins.redeem(issueLoginCode(state, 0))
  const code = issueLoginCode(state, 0)
  logins.endAll()
  expect(logins.use([login?.cookie ?? ""], login?.key ?? "")).toBeUndefined()
  expect(logins.redeem(code)).toBeUndefined()
  expect(
    openPageLogins(state, () => 1).use([login?.cookie ?? ""], login?.key ?? ""),
  ).toBeUndefined()
})

const anyLogin: fc.Arbitrary<PageLogin> = fc.record({
  cookie: fc.stringMatching(/^[0-9a-f]{4}$/),
  key: fc.stringMatching(/^[0-9a-f]{4}$/),
  createdAt: fc.integer({ min: 0, max: 2 * MOST_MS }),
  usedAt: fc.integer({ min: 0, max: 2 * MOST_MS }),
})

test("a found login is valid and its cookie never outlives it; the list keeps the new one and stays bounded", () => {
  fc.assert(
    fc.property(
      fc.array(anyLogin, { maxLength: 150 }),
      anyLogin,
      fc.integer({ min: 0, max: 2 * MOST_MS }),
      (logins, added, now) => {
        const next = withLogin(logins, added, now)
        expect(next.length).toBeLessThanOrEqual(100)
        expect(next.at(-1)).toBe(added)
        for (const { cookie, key } of next) {
          const found = findLogin(next, [cookie], key, now)
          if (!found) continue
          expect(isValid(found.login, now)).toBe(true)
          const seconds = cookieSeconds(found.login, now)
          expect(seconds * 1000).toBeLessThan(found.login.createdAt + MOST_MS - now + 1000)
          expect(seconds * 1000).toBeLessThanOrEqual(IDLE_MS)
        }
      },
    ),
  )
})

test("a login with a token gives the sealed token back, and logging out ends the logins of that token only", () => {
  const logins = openPageLogins(newState(), () => 1)
  for (const [cookie, who] of [
    ["a", "one"],
    ["b", "one"],
    ["c", "two"],
  ] as const)
    logins.begin({ cookie, key: "k", sealed: `sealed-${cookie}`, who })
  expect(logins.use(["a"], "k")).toMatchObject({ sealed: "sealed-a" })
  logins.endAll("one")
  expect(["a", "b", "c"].map((cookie) => logins.use([cookie], "k")?.sealed)).toEqual([
    undefined,
    undefined,
    "sealed-c",
  ])
})

test("logins with tokens never take the place of the operator's", () => {
  const state = newState()
  const operator = openPageLogins(state, () => 1).redeem(issueLoginCode(state, 0))
  const logins = openPageLogins(state, () => 2)
  for (let index = 0; index < 700; index += 1)
    logins.begin({ cookie: `c${index}`, key: "k", sealed: "s", who: `who-${index % 100}` })
  expect(logins.use([operator?.cookie ?? ""], operator?.key ?? "")).toBeDefined()
  const isKept = (index: number) => logins.use([`c${index}`], "k") !== undefined
  const kept = Array.from({ length: 700 }, (_, index) => isKept(index)).filter(Boolean)
  expect(kept.length).toBeLessThanOrEqual(510)
  expect(isKept(699)).toBeTrue()
})
