/** The cookie and the security headers of the page. */
import { expect, test } from "bun:test"
import { KEY_PROTOCOL, makePageCookie } from "../../../src/lib/page/page-cookie.ts"
import { assetHeaders, pageHeaders, terminalHeaders } from "../../../src/lib/page/page-headers.ts"

const policyOf = (headers: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  new Map(
    (headers["content-security-policy"] ?? "").split("; ").map((rule) => {
      const [name = "", ...values] = rule.split(" ")
      return [name, values.join(" ")] as const
    }),
  )

test("the cookie of a login is for /hub only, not readable by scripts, and secure behind TLS", () => {
  const cookie = makePageCookie("value", 60, false)
  expect(cookie).toBe("sandpiper_page=value; Path=/hub; Max-Age=60; HttpOnly; SameSite=Strict")
  expect(makePageCookie("value", 60, true)).toBe(`${cookie}; Secure`)
})

test("the key of a WebSocket is found among its protocols, and no other text is taken for one", () => {
  expect(KEY_PROTOCOL.exec("sandpiper.1, key.abc_-9")?.[1]).toBe("abc_-9")
  expect(KEY_PROTOCOL.exec("sandpiper.1, monkey.abc")).toBeNull()
  expect(KEY_PROTOCOL.exec(`key.${"a".repeat(129)}`)).toBeNull()
})

test("the page runs its own scripts and styles only, and shows frames of the sandbox only", () => {
  const policy = policyOf(pageHeaders(["http://box.test:9000"]))
  expect(policy.get("default-src")).toBe("'none'")
  expect(policy.get("script-src")).toBe("'self'")
  expect(policy.get("style-src")).toBe("'self'")
  expect(policy.get("frame-src")).toBe("http://box.test:9000")
  expect(policy.get("frame-ancestors")).toBe("'none'")
})

test("the page asks the browser for a window group and a process apart from other pages of its site", () => {
  expect(pageHeaders([])).toMatchObject({
    "cross-origin-opener-policy": "same-origin",
    "origin-agent-cluster": "?1",
  })
})

test("the terminal may have inline styles, and only the given origins may show it", () => {
  const policy = policyOf(terminalHeaders(["http://page.test"]))
  expect(policy.get("style-src")).toBe("'self' 'unsafe-inline'")
  expect(policy.get("script-src")).toBe("'self'")
  expect(policy.get("frame-ancestors")).toBe("http://page.test")
  expect(policyOf(terminalHeaders([])).get("frame-ancestors")).toBe("'none'")
})

test("a file that is opened as a document runs nothing", () => {
  expect(assetHeaders["content-security-policy"]).toBe("default-src 'none'; sandbox")
})
