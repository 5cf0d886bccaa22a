/** How a tool calls the gateway, and what it makes of each failure. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Server } from "bun"
import { callOperation, operationNamed } from "../../tools/gateway.ts"
import type { ToolContext } from "../../tools/tool.ts"

let server: Server<undefined>
let seen: {
  readonly method: string
  readonly url: URL
  readonly headers: Headers
  readonly body: string
}[]
let reply: () => Response = () => Response.json({})
const before = { ...process.env }

beforeAll(() => {
  seen = []
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { method, headers } = request
      seen.push({ method, url: new URL(request.url), headers, body: await request.text() })
      return reply()
    },
  })
  process.env["SANDPIPER_URL"] = `http://127.0.0.1:${server.port}`
  process.env["SANDPIPER_API_TOKEN"] = "the-token"
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
  const words = await call("list-sessions", {}).then(String, (failure: unknown) => String(failure))
  reply = () => Response.json({})
  return words
}

describe("a call", () => {
  test("says who makes it, with a key of its own", async () => {
    await call("spawn-session", { task: "t", workspace: "w", title: undefined })
    const { method, url, headers, body } = seen.at(-1) ?? {}
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

  test("puts ids into the path and the rest into query or body, whatever they hold", async () => {
    await call("memory-delete", { id: "../a b?c" })
    expect(seen.at(-1)?.url.pathname).toBe("/api/memories/..%2Fa%20b%3Fc")
    await call("list-triggers", { enabled: false, workflowId: "w&x" })
    expect(seen.at(-1)?.url.search).toBe("?enabled=false&workflowId=w%26x")
    await call("task-update", { id: "k1", status: "done" })
    expect(seen.at(-1)).toMatchObject({ method: "PUT", body: '{"status":"done"}' })
  })

  test("that is stopped stops", async () => {
    reply = () => new Response(new ReadableStream({ start: () => {} }))
    const stop = new AbortController()
    const operation = operationNamed("list-sessions")
    const under = callOperation({ operation, input: {}, context: contextWith(stop.signal) })
    stop.abort(new Error("the turn was stopped"))
    expect(await under.then(String, String)).toContain("the turn was stopped")
    reply = () => Response.json({})
  })
})

describe("a failure", () => {
  test.each([
    [400, "task is required", "task is required. Correct this and call the tool again."],
    [404, "there is no tunnel x", "Check the name or id"],
    [
      409,
      "port 80 belongs to VS Code: choose another",
      "port 80 belongs to VS Code: choose another",
    ],
    [501, "this sandbox has no secrets", "go on without, or tell the user"],
    [502, "the session agent says no", "the session agent says no"],
    [503, "the session agent could not be reached", "try again in a minute"],
    [504, "no answer; it may still be carried out", "look before you call the tool again"],
  ])("of status %d is thrown: %s", async (status, error, words) => {
    expect(await errorOf(status, error)).toContain(words)
  })

  test("that looks like success is thrown too", async () => {
    reply = () => Response.json({ success: false })
    expect(await call("memory-delete", { id: "m" }).then(String, String)).toContain(
      "memory-delete was refused; nothing was done",
    )
    reply = () => Response.json({})
  })

  test("of an answer that is no JSON names the status", async () => {
    reply = () => new Response("<html>", { status: 500 })
    expect(await call("list-sessions", {}).then(String, String)).toContain(
      "the runner answered 500",
    )
    reply = () => Response.json({})
  })
})

test("a runner that is away for a moment is waited for, and nothing is sent twice", async () => {
  const port = server.port ?? 0
  const shown: unknown[] = []
  await server.stop(true)
  const context = { ...contextWith(), metadata: (state: unknown) => shown.push(state) }
  const input = { task: "t", workspace: "w" }
  const under = callOperation({ operation: operationNamed("spawn-session"), input, context })
  while (shown.length === 0) await Bun.sleep(5)
  let calls = 0
  server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    fetch: () => Response.json({ childSessionId: `s${(calls += 1)}` }),
  })
  expect(await under).toEqual({ childSessionId: "s1" })
  expect(calls).toBe(1)
})
