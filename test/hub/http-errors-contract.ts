/** The HTTP errors and the cross-origin rules of docs/clients.md, row by row. `page-contract.ts` runs them on both hosts. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { House, PageKit } from "./page-contract.ts"
import { connectClient } from "./kit/client.ts"
import { untilTrue } from "../kit/until-true.ts"

export const ALLOWED_ORIGIN = "https://app.example"

const DOCUMENTED = readFileSync(join(import.meta.dir, "../../docs/clients.md"), "utf8")

interface Case {
  readonly status: number
  readonly code: string
  readonly when: string
  readonly call: (house: House) => Promise<Response>
}

export const testHttpErrors = ({ open, prompt, request, host }: PageKit): void => {
  const verb = ({ session }: House, name: string, body: object) =>
    request("POST", `/sessions/${session}/${name}`, body)
  const call = (path: string, init: RequestInit) =>
    fetch(`${host().url}${path}`, { keepalive: false, ...init })
  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })
  const viewerOf = async ({ session }: House): Promise<string> => {
    const made = await request("POST", `/sessions/${session}/share-links`, { role: "viewer" })
    const { token } = (await made.json()) as { token: string }
    return token
  }
  /** A running prompt that does not end by itself. */
  const runPrompt = async (house: House) => {
    const made = await verb(house, "prompt", { content: "work" })
    const { messageId } = (await made.json()) as { messageId: string }
    await untilTrue(() => house.runner.prompts.length > 0, "prompt at the runner")
    return messageId
  }

  test("a refused request whose body was not read does not break the client's next request on its connection", async () => {
    // A client repeats a GET that its connection has lost by itself; it does not repeat a POST.
    for (let round = 0; round < 6; round += 1) {
      const refused = await fetch(`${host().url}/hooks/none`, {
        method: "POST",
        headers: bearer("wrong"),
        body: JSON.stringify({ content: "x".repeat(1000) }),
      })
      // After some wrong secrets the caller has to wait.
      expect([404, 429]).toContain(refused.status)
      await refused.text()
    }
  })

  const cases: readonly Case[] = [
    {
      status: 400,
      code: "bad-request",
      when: "a field is missing",
      call: (house) => verb(house, "prompt", {}),
    },
    {
      status: 400,
      code: "bad-request",
      when: "the verb does not exist",
      call: (house) => verb(house, "fly", {}),
    },
    {
      status: 400,
      code: "http-400",
      when: "the body is not JSON",
      call: ({ session }) =>
        call(`/sessions/${session}/prompt`, {
          method: "POST",
          headers: bearer(host().clientToken),
          body: "{",
        }),
    },
    {
      status: 400,
      code: "http-400",
      when: "the cursor is not a number",
      call: ({ get }) => get("/events?cursor=x"),
    },
    {
      status: 401,
      code: "http-401",
      when: "the token is wrong",
      call: ({ session }) => call(`/sessions/${session}`, { headers: bearer("wrong") }),
    },
    {
      status: 403,
      code: "forbidden",
      when: "the role is not enough",
      call: async (house) =>
        call(`/sessions/${house.session}/prompt`, {
          method: "POST",
          headers: bearer(await viewerOf(house)),
          body: '{"content":"x"}',
        }),
    },
    {
      status: 403,
      code: "http-403",
      when: "the origin is foreign",
      call: ({ session }) =>
        call(`/sessions/${session}`, {
          headers: { ...bearer(host().clientToken), Origin: "https://evil.example" },
        }),
    },
    {
      status: 404,
      code: "not-found",
      when: "the prompt does not exist",
      call: (house) => verb(house, "withdraw", { id: "missing" }),
    },
    {
      status: 404,
      code: "http-404",
      when: "the session does not exist",
      call: () => request("POST", "/sessions/missing/abort", {}),
    },
    {
      status: 404,
      code: "http-404",
      when: "the route does not exist",
      call: () => request("GET", "/nothing/here"),
    },
    {
      status: 409,
      code: "too-late",
      when: "the prompt runs already",
      call: async (house) => verb(house, "withdraw", { id: await runPrompt(house) }),
    },
    {
      status: 409,
      code: "conflict",
      when: "the clientRequestId was used for another prompt",
      call: async (house) => {
        await verb(house, "prompt", { content: "one", clientRequestId: "r1" })
        return verb(house, "prompt", { content: "two", clientRequestId: "r1" })
      },
    },
    {
      status: 429,
      code: "too-many",
      when: "a limit of the owner is reached",
      call: async ({ session }) => {
        const owner = "user:limited"
        await request("PUT", `/sessions/${session}-limited`, { owner })
        await request("PUT", `/owners/${owner}/budget`, { promptsPerMinute: 1 })
        const ask = () =>
          request("POST", `/sessions/${session}-limited/prompt`, { content: "more" })
        await ask()
        return ask()
      },
    },
    {
      status: 503,
      code: "no-runner",
      when: "no runner is connected",
      call: async (house) => {
        await house.runner.stop()
        await house.client.until(
          () => (house.client.state("runner") as { connected?: boolean }).connected === false,
          "the runner is away",
        )
        return verb(house, "review", {})
      },
    },
  ]

  for (const { status, code, when, call: make } of cases)
    test(`the HTTP API answers ${status} with the code ${code} when ${when}, as docs/clients.md says`, async () => {
      const response = await make(await open({}))
      expect(response.status).toBe(status)
      expect(await response.json()).toMatchObject({ ok: false, error: { code } })
      expect(DOCUMENTED).toContain(`\`${code}\``)
    })

  test("an answer about an unknown verb names that verb and the known ones, over HTTP and over a WebSocket", async () => {
    const house = await open({})
    const answer = (await (await verb(house, "fly", {})).json()) as { error: { message: string } }
    expect(answer.error.message).toStartWith(
      'there is no verb "fly": expected one of subscribe, prompt, abort',
    )
    const { session } = house
    const client = await connectClient(host().url, host().clientToken, { session })
    try {
      const { error } = await client.ask({ type: "fly" })
      expect(error).toMatchObject({ message: answer.error.message })
    } finally {
      client.close()
    }
  })

  test("a web page of an allowed origin may ask first, and may read answers and errors; another may not", async () => {
    const house = await open()
    await prompt(house, "hello")
    const path = `/sessions/${house.session}`
    const preflight = (origin: string) =>
      call(path, {
        method: "OPTIONS",
        headers: { Origin: origin, "Access-Control-Request-Method": "POST" },
      })
    const asked = await preflight(ALLOWED_ORIGIN)
    expect(asked.status).toBe(204)
    expect(asked.headers.get("access-control-allow-origin")).toBe(ALLOWED_ORIGIN)
    expect(asked.headers.get("access-control-allow-headers")).toContain("authorization")
    const foreign = await preflight("https://evil.example")
    expect(foreign.headers.get("access-control-allow-origin")).toBeNull()
    for (const [target, status] of [
      [path, 200],
      ["/sessions", 200],
      ["/sessions/missing", 404],
      ["/nothing", 404],
    ] as const) {
      const headers = { Origin: ALLOWED_ORIGIN, ...bearer(host().clientToken) }
      const response = await call(target, { headers })
      expect([target, response.status]).toEqual([target, status])
      expect(response.headers.get("access-control-allow-origin")).toBe(ALLOWED_ORIGIN)
    }
  })
}
