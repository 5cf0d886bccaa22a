/** The tools' API over HTTP: every operation of the table, and its errors. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { ApiError } from "../../../src/runner/gateway/api-error.ts"
import { findRoute, routes } from "../../../src/runner/gateway/routes.ts"
import { operations } from "../../../src/wire/operations/index.ts"
import { sampleOf } from "../../wire/operations/samples.ts"
import { api, API_TOKEN, logIn, startTestGateway, type TestGateway } from "./kit.ts"

type Fields = Record<string, unknown>
let gateway: TestGateway
let asked: { type: string; fields: Fields }[] = []
let told: { type: string; fields: Fields }[] = []
let answer: () => Promise<Fields> = async () => ({})

beforeAll(() => {
  gateway = startTestGateway({
    request: (type, fields) => {
      asked.push({ type, fields })
      return answer()
    },
    notify: (type, fields) => void told.push({ type, fields }),
  })
})
afterAll(() => gateway.stop())
afterEach(() => {
  asked = []
  told = []
})

/** Calls an operation as a tool does: path parameters first, the rest as query or body. */
const call = (operation: (typeof operations)[number], input: Fields) => {
  const rest = { ...input }
  const path = operation.path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = String(rest[name])
    delete rest[name]
    return encodeURIComponent(value)
  })
  const plain = path.slice("/api".length)
  if (operation.method === "GET" || operation.method === "DELETE") {
    const query = new URLSearchParams(
      Object.entries(rest).map(([key, value]) => [key, String(value)] as [string, string]),
    )
    return api(gateway, operation.method, `${plain}?${query.toString()}`)
  }
  return api(gateway, operation.method, plain, rest)
}

describe("the operations of the table", () => {
  for (const operation of operations) {
    const { served, name } = operation
    if (served.by === "session") {
      test(`the operation ${name} sends a request to the session agent and replies with its result`, async () => {
        const sample = sampleOf(name)
        answer = async () => sample.result as Fields
        const response = await call(operation, sample.input)
        expect(await response.json()).toEqual((sample.reply ?? sample.result) as Fields)
        expect(asked).toEqual([
          {
            type: served.request.type,
            fields: served.toFields(operation.input.parse(sample.input)),
          },
        ])
        expect(told).toHaveLength(served.announce ? 1 : 0)
      })
    }
    if (served.by === "frame") {
      test(`the operation ${name} sends a frame to the session agent and has a fixed reply`, async () => {
        const response = await call(operation, sampleOf(name).input)
        expect(await response.json()).toEqual(served.reply)
        expect(told).toHaveLength(1)
      })
    }
  }
})

describe("errors of the API", () => {
  const status = async (run: Promise<Response>) => {
    const response = await run
    const body = (await response.json()) as Fields
    return [response.status, body["code"], typeof body["requestId"]]
  }
  test.each([
    [502, "refused"],
    [503, "offline"],
    [504, "unanswered"],
  ] as const)("a failed request over the link is %d %s", async (code, word) => {
    answer = () => Promise.reject(new ApiError(code, word, "the reason"))
    expect(await status(api(gateway, "GET", "/child-sessions"))).toEqual([code, word, "string"])
  })
  test("a result without a required field is 502 and names the field", async () => {
    answer = async () => ({})
    const response = await api(gateway, "GET", "/child-sessions")
    expect(response.status).toBe(502)
    expect(JSON.stringify(await response.json())).toContain("children")
  })
  test("an unexpected error is 500 and does not reveal its message", async () => {
    answer = () => Promise.reject(new Error("the database's password is x"))
    const response = await api(gateway, "GET", "/child-sessions")
    expect(response.status).toBe(500)
    expect(await response.text()).not.toContain("password")
  })
  test("an invalid input is 400 and names the field", async () => {
    const response = await api(gateway, "POST", "/spawn-child", { workspace: "w" })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      code: "bad-input",
      error: expect.stringContaining("task"),
    })
  })
  test.each(["not json", "[1]", '"text"', "null", '{"a":'])(
    "a body that is not a JSON object is 400: %s",
    async (body) => {
      const response = await fetch(`${gateway.url}/api/spawn-child`, {
        method: "POST",
        headers: { authorization: `Bearer ${API_TOKEN}` },
        body,
      })
      expect([response.status, ((await response.json()) as Fields)["error"]]).toEqual([
        400,
        "the body must be a JSON object",
      ])
    },
  )
  test("an unknown operation is 404, and an operation on secrets without a source of secrets is 501", async () => {
    expect((await api(gateway, "GET", "/no-such-thing")).status).toBe(404)
    expect(await status(api(gateway, "POST", "/secrets/list", {}))).toEqual([
      501,
      "not-implemented",
      "string",
    ])
  })
  test("a body of more than 8 MiB is 413, and one of nearly 8 MiB is read", async () => {
    answer = async () => ({ childSessionId: "c" })
    const task = "x".repeat(8 * 1024 * 1024)
    expect((await api(gateway, "POST", "/spawn-child", { workspace: "w", task })).status).toBe(413)
    const shorter = task.slice(100)
    expect(
      (await api(gateway, "POST", "/spawn-child", { workspace: "w", task: shorter })).status,
    ).toBe(200)
  })
})

describe("the route table", () => {
  test("the route of every operation requires the tools' token", () => {
    for (const { path } of operations) {
      expect(findRoute(path, "")?.access.split("+")).toContain("tool")
    }
  })
  test("only the probes of liveness are open to everyone", () => {
    const open = routes.filter(({ access }) => access === "open").map(({ path }) => path)
    expect(open).toEqual(["/health", "/api/health"])
  })
  test("a request without a credential is 401 on every route that is not open", async () => {
    for (const { path, access } of routes) {
      if (path.startsWith("//")) continue
      const response = await fetch(`${gateway.url}${path.replace("/*", "/").replace(":name", "x")}`)
      if (access === "open") expect(response.status).toBe(200)
      else if (access === "opencode") expect(response.status).toBe(502)
      else expect(response.status).toBe(401)
    }
  })
  test("an address without a row is 404, with any credential", async () => {
    const cookie = await logIn(gateway)
    for (const path of ["/", "/admin", "/metricsx", "/ready/x", "/apis", "/t", "/index.html"]) {
      const headers = { cookie, authorization: `Bearer ${API_TOKEN}` }
      const response = await fetch(`${gateway.url}${path}`, { headers, redirect: "manual" })
      expect(response.status).toBe(404)
    }
  })
})
