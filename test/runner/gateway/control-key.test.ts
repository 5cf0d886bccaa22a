/** The control key: every way in which a control token can be wrong is refused, over real requests. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { signControlToken } from "../../../src/lib/control-token.ts"
import { createTokenIds } from "../../../src/runner/gateway/control-claims.ts"
import { createAuth } from "../../../src/runner/gateway/auth.ts"
import { parseRequestHead } from "../../../src/runner/gateway/http/head.ts"
import {
  API_TOKEN,
  makeControlToken,
  makeToken,
  SECRET,
  SESSION,
  startTestGateway,
  type TestGateway,
} from "./kit.ts"

let gateway: TestGateway
beforeAll(() => {
  gateway = startTestGateway()
})
afterAll(() => gateway.stop())

const seconds = () => Math.floor(Date.now() / 1000)
const health = async (token: string): Promise<number> => {
  const headers = { authorization: `Bearer ${token}` }
  return (await fetch(`${gateway.url}/v1/health`, { headers })).status
}

describe("a route of the control plane", () => {
  test("a route of the control plane answers to a token that the control plane has signed", async () => {
    const token = await signControlToken({
      key: SECRET,
      sessionId: SESSION,
      jti: "one",
      now: Date.now(),
    })
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`${gateway.url}/v1/health`, { headers })
    expect(await response.json()).toEqual({ status: "ok" })
  })

  test("an accepted token is refused when it expires and when the key changes", () => {
    let now = 1_000_000
    const ids = createTokenIds(() => now)
    expect(ids.isAccepted("token")).toBe(false)
    expect(ids.belongs("one", "token", now + 1000)).toBe(true)
    expect(ids.isAccepted("token")).toBe(true)
    expect(ids.isAccepted("another")).toBe(false)
    now += 1000
    expect(ids.isAccepted("token")).toBe(false)
    ids.belongs("two", "token two", now + 1000)
    ids.clear()
    expect(ids.isAccepted("token two")).toBe(false)
  })

  test("a route of the control plane accepts one token for many requests", async () => {
    const token = makeControlToken()
    expect([await health(token), await health(token)]).toEqual([200, 200])
  })

  const wrong: Readonly<Record<string, () => string>> = {
    "without a scope": () => makeControlToken({ claims: { scope: undefined } }),
    "with another scope": () => makeControlToken({ claims: { scope: "person" } }),
    "with a scope that only contains the word": () =>
      makeControlToken({ claims: { scope: "control admin" } }),
    "with a list as scope": () => makeControlToken({ claims: { scope: ["control"] } }),
    "of another session": () => makeControlToken({ claims: { sid: "another" } }),
    "without a session": () => makeControlToken({ claims: { sid: undefined } }),
    "without an id": () => makeControlToken({ claims: { jti: undefined } }),
    "with an empty id": () => makeControlToken({ claims: { jti: "" } }),
    "with a very long id": () => makeControlToken({ claims: { jti: "x".repeat(129) } }),
    "with a number as id": () => makeControlToken({ claims: { jti: 7 } }),
    "that has expired": () =>
      makeControlToken({ claims: { iat: seconds() - 301, exp: seconds() - 1 } }),
    "without an expiry": () => makeControlToken({ claims: { exp: undefined } }),
    "without its time of issue": () => makeControlToken({ claims: { iat: undefined } }),
    "that lives longer than five minutes": () =>
      makeControlToken({ claims: { exp: seconds() + 301 } }),
    "that was issued in the future to live longer": () =>
      makeControlToken({ claims: { iat: seconds() + 3600, exp: seconds() + 3900 } }),
    "that is not valid yet": () => makeControlToken({ claims: { nbf: seconds() + 60 } }),
    "signed with another key": () => makeControlToken({ secret: "another key of sixteen" }),
    "without a signature": () => makeControlToken({ signature: "" }),
    "with the algorithm none": () => makeControlToken({ header: { alg: "none" }, signature: "" }),
    "with the algorithm HS512": () => makeControlToken({ header: { alg: "HS512" } }),
    "that is longer than 4096 characters": () =>
      makeControlToken({ claims: { more: "x".repeat(4096) } }),
    "of a person": () => makeToken(),
    "of the agent's tools": () => API_TOKEN,
    "that is not a JWT": () => "control",
  }
  for (const [how, make] of Object.entries(wrong)) {
    test(`a route of the control plane refuses a token ${how}`, async () => {
      expect([401, 429]).toContain(await health(make()))
    })
  }

  test("a route of the control plane refuses a request without a token", async () => {
    expect((await fetch(`${gateway.url}/v1/health`)).status).toBe(401)
  })

  test("a route of the control plane reads the token from the Authorization header only", async () => {
    const token = makeControlToken()
    expect((await fetch(`${gateway.url}/v1/health?token=${token}`)).status).toBe(401)
    const asCookie = { cookie: `gateway_session=${token}; token=${token}` }
    expect((await fetch(`${gateway.url}/v1/health`, { headers: asCookie })).status).toBe(401)
    const asBasic = { authorization: `Basic ${btoa(`control:${token}`)}` }
    expect((await fetch(`${gateway.url}/v1/health`, { headers: asBasic })).status).toBe(401)
    expect(await health(token)).toBe(200)
  })

  test("a route of the control plane refuses a second token with the id of the first", async () => {
    const jti = crypto.randomUUID()
    expect(await health(makeControlToken({ claims: { jti } }))).toBe(200)
    const second = makeControlToken({ claims: { jti, exp: seconds() + 200 } })
    expect([401, 429]).toContain(await health(second))
  })

  test("a route of the control plane refuses a token that was signed before the key was replaced", async () => {
    const other = startTestGateway()
    const headers = { authorization: `Bearer ${makeControlToken()}` }
    expect((await fetch(`${other.url}/v1/health`, { headers })).status).toBe(200)
    other.afterRestore("another key of the gateway")
    expect((await fetch(`${other.url}/v1/health`, { headers })).status).toBe(401)
    await other.stop()
  })

  test("a route of the control plane refuses every token if the sandbox has no JWT_SECRET", async () => {
    const other = startTestGateway({ jwtSecret: undefined })
    const headers = { authorization: `Bearer ${makeControlToken()}` }
    expect((await fetch(`${other.url}/v1/health`, { headers })).status).toBe(401)
    await other.stop()
  })
})

test("a control token opens neither a page of a person, nor the tools' API, nor the metrics", async () => {
  for (const path of ["/vscode/", "/api/tunnels", "/metrics", "/ready"]) {
    const token = makeControlToken({ claims: { sub: "the control plane" } })
    const headers = { authorization: `Bearer ${token}` }
    const own = await fetch(`${gateway.url}${path}`, { headers })
    expect([401, 429]).toContain(own.status)
    const inQuery = await fetch(`${gateway.url}${path}?token=${token}`)
    expect([401, 429]).toContain(inQuery.status)
  }
})

describe("a route that several keys open", () => {
  const auth = createAuth({
    sessionId: SESSION,
    jwtSecret: SECRET,
    apiToken: API_TOKEN,
    now: Date.now,
  })
  const tokens = {
    tool: () => API_TOKEN,
    person: () => makeToken(),
    control: () => makeControlToken(),
  }
  const target = { path: "/api/services", search: "" }
  const headOf = (token?: string) =>
    parseRequestHead(
      `GET /api/services HTTP/1.1\r\nHost: x${token === undefined ? "" : `\r\nAuthorization: Bearer ${token}`}`,
    )
  const accesses = ["tool+control", "person+control", "tool+person+control"] as const
  for (const access of accesses) {
    test(`${access} admits the keys that it names and says which one it was`, async () => {
      for (const [key, make] of Object.entries(tokens)) {
        const verdict = await auth.guards[access](
          headOf(make()),
          target,
          `peer of ${access} ${key}`,
        )
        if (access.split("+").includes(key)) expect(verdict).toMatchObject({ by: key })
        else expect(verdict).toBe("invalid")
      }
    })

    test(`${access} refuses a request without a key`, async () => {
      expect(await auth.guards[access](headOf(), target, "a peer")).toBe("missing")
    })

    test(`${access} counts a wrong token as one failed attempt`, async () => {
      const before = auth.attempts.total()
      expect(await auth.guards[access](headOf("wrong"), target, "a peer")).toBe("invalid")
      expect(auth.attempts.total()).toBe(before + 1)
    })
  }
})

test("ids of control tokens are forgotten when the tokens expire, and refused while there is no room", () => {
  let at = 0
  const ids = createTokenIds(() => at, 2)
  expect(ids.belongs("a", "token a", 100)).toBe(true)
  expect(ids.belongs("b", "token b", 200)).toBe(true)
  expect(ids.belongs("c", "token c", 300)).toBe(false)
  at = 100
  expect(ids.belongs("c", "token c", 300)).toBe(true)
  expect(ids.belongs("c", "another token", 300)).toBe(false)
})
