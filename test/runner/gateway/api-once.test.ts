/** Idempotency keys, the caller of a tool call, and the OpenAPI document. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { ApiError } from "../../../src/runner/gateway/api-error.ts"
import type { Caller } from "../../../src/runner/gateway/api.ts"
import { createOnce } from "../../../src/runner/gateway/idempotency.ts"
import { operations } from "../../../src/wire/operations/index.ts"
import { API_TOKEN, startTestGateway, type TestGateway } from "./kit.ts"
import { untilTrue } from "../../kit/until-true.ts"

type Fields = Record<string, unknown>

let gateway: TestGateway
let asked: { readonly type: string; readonly caller: Caller }[] = []
let answer: () => Promise<Fields> = async () => ({})

beforeAll(() => {
  gateway = startTestGateway({
    request: (type, _fields, caller) => {
      asked.push({ type, caller })
      return answer()
    },
  })
})
afterAll(() => gateway.stop())
afterEach(() => {
  asked = []
})

const spawn = (key: string | undefined, body: Fields, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/api/spawn-child`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${API_TOKEN}`,
      ...(key !== undefined && { "idempotency-key": key }),
      ...headers,
    },
    body: JSON.stringify(body),
  })

const task = { task: "t", workspace: "w" }

describe("idempotency keys", () => {
  test("a repeated call with the same key gets the first result and is not carried out again", async () => {
    let child = 0
    answer = async () => ({ childSessionId: `s${(child += 1)}` })
    const first = await (await spawn("k1", task)).json()
    expect(await (await spawn("k1", task)).json()).toEqual(first)
    expect(asked).toHaveLength(1)
    expect(await (await spawn("k2", task)).json()).toEqual({ childSessionId: "s2" })
  })

  test("a repeated call waits for the first one if it is still running", async () => {
    const { promise, resolve } = Promise.withResolvers<Fields>()
    answer = () => promise
    const both = [spawn("k3", task), spawn("k3", task)]
    await untilTrue(() => asked.length > 0, "the first call")
    resolve({ childSessionId: "s3" })
    const bodies = await Promise.all((await Promise.all(both)).map((response) => response.json()))
    expect(bodies).toEqual([{ childSessionId: "s3" }, { childSessionId: "s3" }])
    expect(asked).toHaveLength(1)
  })

  test("a repeated call gets the same error if the first one failed, because it may have taken effect", async () => {
    answer = () => Promise.reject(new ApiError(504, "unanswered", "no answer"))
    const first = await spawn("k4", task)
    answer = async () => ({ childSessionId: "s4" })
    const second = await spawn("k4", task)
    expect([first.status, second.status]).toEqual([504, 504])
    expect(await second.json()).toEqual(await first.json())
    expect(asked).toHaveLength(1)
  })

  test("a key that was used for a different call is 409", async () => {
    answer = async () => ({ childSessionId: "s5" })
    await spawn("k5", task)
    const other = await spawn("k5", { ...task, task: "another" })
    expect(other.status).toBe(409)
    expect(await other.json()).toMatchObject({ code: "key-reused", requestId: expect.any(String) })
    expect(asked).toHaveLength(1)
  })

  test("a call with an invalid input does not use up its key", async () => {
    answer = async () => ({ childSessionId: "s6" })
    expect((await spawn("k6", { task: "t" })).status).toBe(400)
    expect((await spawn("k6", task)).status).toBe(200)
  })

  test("calls without a key are all carried out", async () => {
    answer = async () => ({ childSessionId: "s7" })
    await spawn(undefined, task)
    await spawn(undefined, task)
    expect(asked).toHaveLength(2)
  })
})

describe("the results that are kept", () => {
  test("a result is kept for a limited time, and the oldest is removed first when there are too many", async () => {
    let now = 0
    const once = createOnce<number>({ now: () => now, keepMs: 100, most: 2 })
    let runs = 0
    const run = async () => (runs += 1)
    expect([await once("a", "x", run), await once("a", "x", run)]).toEqual([1, 1])
    now = 101
    expect(await once("a", "x", run)).toBe(2)
    for (const key of ["b", "c", "d"]) await once(key, "x", run)
    expect(await once("a", "x", run)).toBe(6)
    expect(await once("d", "x", run)).toBe(5)
  })
})

describe("the caller of a tool call", () => {
  test("a tool call passes on the session, the message and the call that it comes from", async () => {
    answer = async () => ({ childSessionId: "s8" })
    await spawn("k8", task, {
      "x-opencode-session-id": "ses_1",
      "x-opencode-message-id": "msg_1",
      "x-opencode-call-id": "call_1",
    })
    answer = () => Promise.reject(new ApiError(502, "refused", "no"))
    await spawn("k9", task, { "x-opencode-call-id": "call_2" })
    const line = gateway.log.find(
      (entry) => entry.includes("api.refused") && entry.includes("call_2"),
    )
    expect(line).toContain('"callId":"call_2"')
    expect(asked[0]?.caller).toEqual({ sessionId: "ses_1", messageId: "msg_1", callId: "call_1" })
  })
})

describe("the OpenAPI document", () => {
  test("the OpenAPI document requires the token and contains every operation", async () => {
    const url = `${gateway.url}/api/openapi.json`
    expect((await fetch(url)).status).toBe(401)
    const response = await fetch(url, { headers: { authorization: `Bearer ${API_TOKEN}` } })
    const document = (await response.json()) as {
      readonly openapi: string
      readonly paths: Record<string, Record<string, { readonly operationId: string }>>
    }
    expect(document.openapi).toBe("3.1.0")
    const ids = Object.values(document.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    )
    expect(ids.toSorted()).toEqual(operations.map(({ name }) => name).toSorted())
    expect(document.paths["/api/tasks/{id}"]?.["put"]).toMatchObject({
      parameters: expect.arrayContaining([
        expect.objectContaining({ name: "id", in: "path", required: true }),
      ]),
      requestBody: expect.anything(),
      responses: { 200: expect.anything(), 504: expect.anything() },
    })
  })
})
