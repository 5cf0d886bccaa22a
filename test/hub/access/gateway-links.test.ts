/** Links to a sandbox's gateway, checked by the gateway's own verifier. */
import { describe, expect, test } from "bun:test"
import { decodeJwt } from "jose"
import { makeGatewayLink, parseDestination } from "../../../src/hub/access/gateway-links.ts"
import { gatewayKey } from "../../../src/hub/keys.ts"
import { createAuth } from "../../../src/runner/gateway/auth.ts"
import { parseTarget } from "../../../src/runner/gateway/http/target.ts"

const NOW = 1_800_000_000_400
const key = await gatewayKey("master", "s1", 1)

const make = (to = "vscode", session = "s1", signed = key) => {
  const destination = parseDestination(to)
  if (!destination) throw new Error(`${to} is not a destination`)
  return makeGatewayLink({
    gatewayUrl: "https://box.example.test:9000",
    to: destination,
    session,
    sub: "alice",
    key: signed,
    now: NOW,
    jti: "jti-1",
  })
}

const open = async (url: string, at = NOW) => {
  const auth = createAuth({
    sessionId: "s1",
    jwtSecret: key,
    apiToken: "api-token",
    now: () => at,
  })
  const { pathname, search, host } = new URL(url)
  const head = { method: "GET", target: `${pathname}${search}`, host, headers: [] }
  const entry = await auth.guards.person(
    { ...head, version: "1.1" } as unknown as Parameters<typeof auth.guards.person>[0],
    parseTarget(head.target),
    "192.0.2.1",
  )
  return typeof entry === "string" ? entry : "opened"
}

describe("a link to the gateway", () => {
  test("the gateway opens a fresh link", async () => {
    const { url } = await make()
    expect(url).toStartWith("https://box.example.test:9000/vscode/?token=")
    expect(await open(url)).toBe("opened")
  })
  test("a link names the session, the person, the path and a single id, for 60 seconds", async () => {
    const { url, expiresAt } = await make("tunnel:web")
    const claims = decodeJwt(new URL(url).searchParams.get("token") ?? "")
    expect(claims).toEqual({
      sid: "s1",
      sub: "alice",
      path: "/t/web/",
      jti: "jti-1",
      iat: 1_800_000_000,
      exp: 1_800_000_060,
    })
    expect(expiresAt).toBe(1_800_000_060_000)
  })
  test("a link to the screen opens noVNC's page, and its token is valid for the whole service", async () => {
    const { url } = await make("vnc")
    const { pathname, searchParams } = new URL(url)
    expect(pathname).toBe("/vnc/vnc.html")
    expect(searchParams.get("path")).toBe("vnc/websockify")
    expect(searchParams.get("autoconnect")).toBe("true")
    expect(decodeJwt(searchParams.get("token") ?? "")["path"]).toBe("/vnc/")
    expect(await open(url)).toBe("opened")
  })
  test("the gateway refuses a link after its time and tolerance", async () => {
    const { url } = await make()
    expect(await open(url, NOW + 91_000)).toBe("invalid")
  })
  test("the gateway refuses a link of another session or another generation's key", async () => {
    expect(await open((await make("vscode", "s2")).url)).toBe("invalid")
    const older = await gatewayKey("master", "s1", 0)
    expect(await open((await make("vscode", "s1", older)).url)).toBe("invalid")
  })
})

describe("destinations of links", () => {
  test("every destination has its path in the gateway", () => {
    expect(parseDestination("vscode")?.path).toBe("/vscode/")
    expect(parseDestination("vnc")?.path).toBe("/vnc/")
    expect(parseDestination("terminal")?.path).toBe("/terminal/")
    expect(parseDestination("tunnel:my-app_1")?.path).toBe("/t/my-app_1/")
  })
  test("a destination that could leave its path is refused", () => {
    for (const to of [
      "",
      "ttyd",
      "api",
      "constructor",
      "__proto__",
      "tunnel:",
      "tunnel:a/b",
      "tunnel:..",
      "tunnel:a?b",
      `tunnel:${"a".repeat(33)}`,
      "tunnel:a\n",
      "//evil.test",
    ]) {
      expect(parseDestination(to)).toBeUndefined()
    }
  })
})
