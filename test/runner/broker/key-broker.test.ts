/** The key broker between a client with the broker's token and providers on loopback. */
import { afterEach, describe, expect, test } from "bun:test"
import { brotliCompressSync } from "node:zlib"
import { type KeyBroker, startKeyBroker } from "../../../src/runner/broker/key-broker.ts"
import type { Upstream } from "../../../src/runner/broker/upstreams.ts"
import { silentLog } from "../../kit/log.ts"
import { untilTrue } from "../../kit/until-true.ts"

const TOKEN = "broker-token-of-this-boot"
const KEY = "sk-the-real-key-of-the-provider"

interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: string
}

const stops: (() => Promise<void>)[] = []
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()))
})

const startProvider = (answer: (request: Request) => Response | Promise<Response>) => {
  const seen: Seen[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const copy = request.clone()
      seen.push({
        method: request.method,
        path: pathname + search,
        headers: new Headers(request.headers),
        body: await copy.text(),
      })
      return answer(request)
    },
  })
  stops.push(() => server.stop(true))
  return { seen, url: `${server.url.origin}/v1` }
}

const startBroker = (upstreams: Readonly<Record<string, Partial<Upstream>>>): KeyBroker => {
  const broker = startKeyBroker({ token: TOKEN, log: silentLog })
  broker.setUpstreams(
    new Map(
      Object.entries(upstreams).map(([name, given]) => [
        name,
        { baseUrl: "http://127.0.0.1:1", auth: "bearer", key: KEY, ...given },
      ]),
    ),
  )
  stops.push(broker.stop)
  return broker
}

const call = (broker: KeyBroker, path: string, init: RequestInit & { token?: string } = {}) =>
  fetch(`http://127.0.0.1:${broker.port}${path}`, {
    method: "POST",
    body: "{}",
    ...init,
    headers: { authorization: `Bearer ${init.token ?? TOKEN}`, ...(init.headers as object) },
  })

describe("a model call through the broker", () => {
  test("a model call reaches the provider with the real key, and the broker's token does not", async () => {
    const provider = startProvider(() => Response.json({ ok: true }))
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    const response = await call(broker, "/openai/chat/completions?x=1", { body: '{"model":"m"}' })
    expect(await response.json()).toEqual({ ok: true })
    expect(provider.seen).toHaveLength(1)
    const [seen] = provider.seen
    expect(seen?.path).toBe("/v1/chat/completions?x=1")
    expect(seen?.body).toBe('{"model":"m"}')
    expect(seen?.headers.get("authorization")).toBe(`Bearer ${KEY}`)
    expect(JSON.stringify([...(seen?.headers ?? [])])).not.toContain(TOKEN)
  })

  test.each([
    ["x-api-key", "anthropic", "/messages"],
    ["x-goog-api-key", "google", "/models/gemini-x:streamGenerateContent"],
  ] as const)("a model call uses the header %s for %s", async (header, name, path) => {
    const provider = startProvider(() => Response.json({}))
    const broker = startBroker({ [name]: { baseUrl: provider.url, auth: header } })
    const response = await fetch(`http://127.0.0.1:${broker.port}/${name}${path}`, {
      method: "POST",
      body: "{}",
      headers: { [header]: TOKEN },
    })
    expect(response.status).toBe(200)
    expect(provider.seen[0]?.headers.get(header)).toBe(KEY)
    expect(provider.seen[0]?.headers.get("authorization")).toBeNull()
  })

  test("a model call streams: the first event arrives while the provider still holds back the second", async () => {
    const release = Promise.withResolvers<void>()
    const provider = startProvider(
      () =>
        new Response(
          new ReadableStream({
            start: async (controller) => {
              controller.enqueue(new TextEncoder().encode("data: one\n\n"))
              await release.promise
              controller.enqueue(new TextEncoder().encode("data: two\n\n"))
              controller.close()
            },
          }),
          { headers: { "content-type": "text/event-stream" } },
        ),
    )
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    const response = await call(broker, "/openai/responses")
    const reader = response.body!.getReader()
    const first = await reader.read()
    expect(new TextDecoder().decode(first.value)).toBe("data: one\n\n")
    release.resolve()
    const second = await reader.read()
    expect(new TextDecoder().decode(second.value)).toBe("data: two\n\n")
  })

  test("a model call is aborted at the provider when the agent closes its connection", async () => {
    const aborted = Promise.withResolvers<void>()
    const provider = startProvider((request) => {
      request.signal.addEventListener("abort", () => aborted.resolve())
      return new Response(new ReadableStream({ pull: () => new Promise(() => {}) }))
    })
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    const controller = new AbortController()
    const response = call(broker, "/openai/chat/completions", { signal: controller.signal })
    response.catch(() => {})
    await untilTrue(() => provider.seen.length > 0, "the call at the provider")
    controller.abort()
    await aborted.promise
  })

  test("a model call keeps a compressed response as it is", async () => {
    const packed = Bun.gzipSync(new TextEncoder().encode('{"packed":true}'))
    const provider = startProvider(
      () => new Response(packed, { headers: { "content-encoding": "gzip" } }),
    )
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    expect(await (await call(broker, "/openai/chat/completions")).json()).toEqual({ packed: true })
  })
})

describe("what the broker refuses", () => {
  test("a call with a wrong token gets 401 and reaches no provider", async () => {
    const provider = startProvider(() => Response.json({}))
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    expect((await call(broker, "/openai/chat/completions", { token: "wrong" })).status).toBe(401)
    expect(provider.seen).toEqual([])
  })

  test.each([
    ["POST", "/openai/files"],
    ["GET", "/openai/organization/admin_api_keys"],
    ["DELETE", "/openai/models/x"],
    ["POST", "/openai/chat/completions/../../admin"],
    ["GET", "/openai/models/..%2f..%2fadmin"],
  ])("%s %s gets 403 or 404 and reaches no provider", async (method, path) => {
    const provider = startProvider(() => Response.json({}))
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    const response = await call(broker, path, { method, ...(method === "GET" && { body: null }) })
    expect([403, 404]).toContain(response.status)
    expect(provider.seen).toEqual([])
  })

  test("a provider without a key gets 404 with its name", async () => {
    const response = await call(startBroker({}), "/openai/chat/completions")
    expect(response.status).toBe(404)
    expect(await response.text()).toContain('provider \\"openai\\"')
  })

  test("a call before the first keys is refused as one to repeat", async () => {
    const broker = startKeyBroker({ token: TOKEN, log: silentLog })
    stops.push(broker.stop)
    const early = await call(broker, "/openai/chat/completions")
    expect(early.status).toBe(503)
    expect(await early.text()).toContain("try again")
    broker.setUpstreams(new Map())
    expect((await call(broker, "/openai/chat/completions")).status).toBe(404)
  })

  test("a key that was taken away is not used again", async () => {
    const provider = startProvider(() => Response.json({}))
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    broker.setUpstreams(new Map())
    expect((await call(broker, "/openai/chat/completions")).status).toBe(404)
    expect(provider.seen).toEqual([])
  })
})

describe("failures of a provider", () => {
  test("a redirect is not followed, so the key stays with the configured host", async () => {
    const elsewhere = startProvider(() => Response.json({}))
    const provider = startProvider(() =>
      Response.redirect(`${elsewhere.url}/chat/completions`, 307),
    )
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    expect((await call(broker, "/openai/chat/completions")).status).toBe(502)
    expect(elsewhere.seen).toEqual([])
  })

  test("an error of a hostile provider fills no memory, however it is packed and wherever it is cut", async () => {
    const MEGABYTE = new Uint8Array(1024 * 1024).fill(32)
    const endless = () =>
      new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(Uint8Array.from(MEGABYTE)),
      })
    const beforeCut = " ".repeat(256 * 1024 - KEY.length + 1)
    const errors: Readonly<
      Record<string, () => [string | ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer>, string?]>
    > = {
      endless: () => [endless()],
      bomb: () => [Bun.gzipSync(new Uint8Array(400 * 1024 * 1024)), "gzip"],
      broken: () => ["not packed at all", "gzip"],
      packed: () => [new Uint8Array(brotliCompressSync(KEY)), "br"],
      cut: () => [`${beforeCut}${KEY}${" ".repeat(1000)}`],
    }
    const provider = startProvider((request) => {
      const [body, encoding] = errors[new URL(request.url).searchParams.get("x") ?? ""]?.() ?? [""]
      const headers = encoding === undefined ? undefined : { "content-encoding": encoding }
      return new Response(body, { status: 401, ...(headers && { headers }) })
    })
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    for (const name of Object.keys(errors)) {
      const response = await call(broker, `/openai/chat/completions?x=${name}`)
      const text = await response.text()
      expect([name, response.status >= 400]).toEqual([name, true])
      expect(text.length).toBeLessThanOrEqual(256 * 1024)
      expect(text).not.toContain(KEY.slice(0, -1))
    }
  })

  test("an error that repeats the key reaches the agent without it", async () => {
    const provider = startProvider(
      (request) => new Response(`bad key ${request.headers.get("authorization")}`, { status: 401 }),
    )
    const broker = startBroker({ openai: { baseUrl: provider.url } })
    const response = await call(broker, "/openai/chat/completions")
    expect(response.status).toBe(401)
    expect(await response.text()).toBe("bad key Bearer [key]")
  })

  test("a provider that cannot be reached gives 502 with its host and no key", async () => {
    const broker = startBroker({ openai: {} })
    const response = await call(broker, "/openai/chat/completions")
    const text = await response.text()
    expect(response.status).toBe(502)
    expect(text).toContain("openai at 127.0.0.1:1 cannot be reached")
    expect(text).not.toContain(KEY)
  })
})
