/** What callers, the page and other programs get as the address of a sandbox whose provider asks for headers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { runnerProvider, type RunnerProvider } from "./kit/runner-provider.ts"
import { externalSession, startStack } from "./kit/stack.ts"

const withHeaders: SandboxProvider["address"] = async () => ({
  is: "ok",
  value: { url: "https://inside.example", headers: { "x-preview-token": "a token" } },
})
const signed: SandboxProvider["address"] = async (ref) => ({
  is: "ok",
  value: { url: `https://signed-${ref}.example/`, headers: {} },
})

const folder = mkdtempSync(join(tmpdir(), "fleet-public-addresses-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const serveWith = (change: Pick<SandboxProvider, "address" | "publicAddress">) => {
  let inner: RunnerProvider
  let stack: ServeStack
  beforeAll(async () => {
    inner = runnerProvider()
    stack = await startStack(mkdtempSync(join(folder, "stack-")), {
      provider: { ...inner, ...change },
      store: openSqliteStore(":memory:"),
    })
  })
  afterAll(async () => {
    await inner.stop()
    await stack.stop()
  })
  return async (method: string, path: string, body?: object) => {
    const response = await fetch(`${stack.hub.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}

const prepare = "/api/marketplace/expert/prepare-invoke"

describe("a provider with signed addresses", () => {
  const call = serveWith({ address: withHeaders, publicAddress: signed })

  test("chats, agent calls and another session agent get the signed address", async () => {
    await call("POST", prepare, { chatSessionId: "c1" })
    const { body } = await call("GET", "/api/sandbox/by-chat/c1?waitSeconds=60")
    const gateway = `https://signed-${String(body["providerSandboxId"])}.example`
    expect(body["containerUrl"]).toBe(`${gateway}/t/preview/`)
    const again = await call("POST", prepare, { chatSessionId: "c1" })
    expect(again.body).toMatchObject({
      data: { sandboxSession: { containerUrl: `${gateway}/t/preview/` } },
    })
    const resumed = await call("POST", "/api/agent/resume", {
      sandbox_session_id: body["sessionId"],
    })
    expect(resumed.body["sandbox_url"]).toBe(`${gateway}/t/preview/`)
    const created = (await call("POST", "/create-session", externalSession)).body
    const other = `https://signed-${String(created["sandboxId"])}.example`
    expect(created["tunnelUrls"]).toMatchObject({ gateway: other, vnc: `${other}/vnc` })
  })

  test("a link of the page leads to the signed address", async () => {
    const { body } = await call("POST", "/api/threads/L:1/resolve?wait=1")
    const link = await call("POST", `/sessions/${String(body["sessionId"])}/links`, {
      to: "terminal",
    })
    expect(new URL(String(link.body["url"])).host).toBe(
      `signed-${String(body["providerSandboxId"])}.example`,
    )
  })
})

describe("a provider whose addresses need headers", () => {
  const call = serveWith({ address: withHeaders })

  test("callers get no address instead of one that would refuse them", async () => {
    await call("POST", prepare, { chatSessionId: "c2" })
    const { body } = await call("GET", "/api/sandbox/by-chat/c2?waitSeconds=60")
    expect(body).toMatchObject({ status: "running", containerUrl: null })
    const created = (await call("POST", "/create-session", externalSession)).body
    expect(created["tunnelUrls"]).toMatchObject({ gateway: "", vscode: "" })
  })
})
