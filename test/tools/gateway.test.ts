/** Calls from a tool to the gateway: headers, retries and errors. */
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "bun:test"
import type { Server } from "bun"
import { callOperation, operationNamed } from "../../tools/gateway.ts"
import type { ToolContext } from "../../tools/tool.ts"
import { freePort } from "../kit/free-port.ts"
import { untilTrue } from "../kit/until-true.ts"

let server: Server<undefined>
let received: {
  readonly method: string
  readonly url: URL
  readonly headers: Headers
  readonly body: string
}[]
let reply: () => Response = () => Response.json({})
const before = { ...process.env }

beforeAll(() => {
  received = []
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: freePort(),
    fetch: async (request) => {
      const { method, headers } = request
      received.push({ method, url: new URL(request.url), headers, body: await request.text() })
      return reply()
    },
  })
  process.env["SANDPIPER_URL"] = `http://127.0.0.1:${server.port}`
  process.env["SANDPIPER_API_TOKEN"] = "the-token"
})

afterEach(() => {
  reply = () => Response.json({})
})

afterAll(async () => {
  process.env = before
  await server.stop(true)
})

const contextWith = (abort: AbortSignal = new AbortController().signal): ToolContext => ({
  sessionID: "ses_1",
  messageID: "msg_1",
  callID: "call_1",
  agent: "build",
  abort,
  directory: "/",
  worktree: "/",
  metadata: () => {},
})

const call = (name: Parameters<typeof operationNamed>[0], input: Record<string, unknown>) =>
  callOperation({ operation: operationNamed(name), input, context: contextWith() })

const errorOf = async (status: number, error: string) => {
  reply = () => Response.json({ error, code: "x", requestId: "r" }, { status })
  const message = await call("list-sessions", {}).then(String, (failure: unknown) =>
    String(failure),
  )
  reply = () => Response.json({})
  return message
}

describe("call of the gateway", () => {
  test("a call carries the ids of its tool call and an idempotency key", async () => {
    await call("spawn-session", { task: "t", workspace: "w", title: undefined })
    const { method, url, headers, body } = received.at(-1) ?? {}
    expect([method, url?.pathname, body]).toEqual([
      "POST",
      "/api/spawn-child",
      '{"task":"t","workspace":"w"}',
    ])
    expect(headers?.get("authorization")).toBe("Bearer the-token")
    expect(headers?.get("x-opencode-session-id")).toBe("ses_1")
    expect(headers?.get("x-opencode-message-id")).toBe("msg_1")
    expect(headers?.get("x-opencode-call-id")).toBe("call_1")
    expect(headers?.get("idempotency-key")).toBe("ses_1:msg_1:call_1:spawn-session")
  })

  test("a call encodes ids in the path and other fields in the query or body", async () => {
    await call("memory-delete", { id: "../a b?c" })
    expect(received.at(-1)?.url.pathname).toBe("/api/memories/..%2Fa%20b%3Fc")
    await call("list-triggers", { enabled: false, workflowId: "w&x" })
    expect(received.at(-1)?.url.search).toBe("?enabled=false&workflowId=w%26x")
    await call("task-update", { id: "k1", status: "done" })
    expect(received.at(-1)).toMatchObject({ method: "PUT", body: '{"status":"done"}' })
  })

  test("an aborted call rejects with the reason of the abort", async () => {
    reply = () => new Response(new ReadableStream({ start: () => {} }))
    const stop = new AbortController()
    const operation = operationNamed("list-sessions")
    const pending = callOperation({ operation, input: {}, context: contextWith(stop.signal) })
    stop.abort(new Error("the turn was stopped"))
    expect(await pending.then(String, String)).toContain("the turn was stopped")
    reply = () => Response.json({})
  })
})

describe("failure of a call", () => {
  test.each([
    [400, "task is required", "task is required. Correct this and call the tool again."],
    [404, "there is no tunnel x", "Check the name or id"],
    [
      409,
      "port 80 belongs to VS Code: choose another",
      "port 80 belongs to VS Code: choose another",
    ],
    [501, "this sandbox has no secrets", "continue without it or tell the user"],
    [502, "the session agent refuses", "the session agent refuses"],
    [503, "the session agent could not be reached", "try again in a minute"],
    [504, "no answer; it may still be carried out", "check before you call the tool again"],
  ])(
    "a response with status %d and the error %p is thrown with advice",
    async (status, error, expected) => {
      expect(await errorOf(status, error)).toContain(expected)
    },
  )

  test("a successful status with success false in the body is thrown as a refusal", async () => {
    reply = () => Response.json({ success: false })
    expect(await call("memory-delete", { id: "m" }).then(String, String)).toContain(
      "memory-delete was refused; nothing was changed",
    )
    reply = () => Response.json({})
  })

  test("a failure without a JSON body is thrown with its status", async () => {
    reply = () => new Response("<html>", { status: 500 })
    expect(await call("list-sessions", {}).then(String, String)).toContain(
      "the runner responded with status 500",
    )
    reply = () => Response.json({})
  })
})

test("a call waits for a restarting runner and is sent once", async () => {
  const port = freePort()
  const shown: unknown[] = []
  const known = process.env["SANDPIPER_URL"]
  process.env["SANDPIPER_URL"] = `http://127.0.0.1:${port}`
  const context = { ...contextWith(), metadata: (state: unknown) => shown.push(state) }
  const input = { task: "t", workspace: "w" }
  const pending = callOperation({ operation: operationNamed("spawn-session"), input, context })
  // The call has read the address.
  process.env["SANDPIPER_URL"] = known
  await untilTrue(() => shown.length > 0, "notice that the runner is waited for")
  let calls = 0
  const late = Bun.serve({
    hostname: "127.0.0.1",
    port,
    fetch: () => Response.json({ childSessionId: `s${(calls += 1)}` }),
  })
  onTestFinished(() => late.stop(true))
  expect(await pending).toEqual({ childSessionId: "s1" })
  expect(calls).toBe(1)
})
