/** What callers of the fleet's HTTP API are told about a sandbox that is asked for, away, full or another one. */
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { specElsewhere } from "../../src/fleet/providers/elsewhere.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { recordingLog } from "../kit/log.ts"
import { runnerProvider, type RunnerProvider } from "./kit/runner-provider.ts"
import { startStack } from "./kit/stack.ts"

const folder = mkdtempSync(join(tmpdir(), "fleet-api-sandboxes-"))
const log: string[] = []
const store = openSqliteStore(":memory:")
const provider = runnerProvider()
const { address, look } = provider
const changed = provider as {
  -readonly [Name in "address" | "look"]: RunnerProvider[Name]
}
let stack: ServeStack

beforeAll(async () => {
  stack = await startStack(folder, {
    provider,
    store,
    quotas: { running: 1 },
    hub: {
      log: recordingLog(log),
    },
  })
})
afterEach(() => {
  Object.assign(changed, { address, look })
})
afterAll(async () => {
  await provider.stop()
  await stack.stop()
  rmSync(folder, { recursive: true, force: true })
})

const call = async (method: string, path: string, body?: object | FormData, user = "ann") => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${CLIENT_TOKEN}`, "x-user-id": user },
    ...(body && { body: body instanceof FormData ? body : JSON.stringify(body) }),
  })
  const { status, headers } = response
  return { status, body: (await response.json()) as Record<string, unknown>, headers }
}
const running = async (thread: string, user: string): Promise<string> => {
  const { body } = await call("POST", `/api/threads/${thread}/resolve?wait=1`, undefined, user)
  expect(body["status"]).toBe("running")
  return `/api/sandbox/${String(body["sessionId"])}`
}

describe("a sandbox of another session agent", () => {
  const given = {
    sessionId: "elsewhere-1",
    userId: "carol",
    doWsUrl: "wss://worker.example/ws?role=runner",
    runnerToken: "a runner token of the caller",
    jwtSecret: "a gateway key of the caller",
  }

  test("its runner connects to the address of that agent, also if sandboxes reach this hub at another one", async () => {
    const customProviders = [{ providerId: "p", apiKey: "key-of-a-provider" }]
    const { status } = await call("POST", "/create-session", { ...given, customProviders })
    expect(status).toBe(200)
    const spec = provider.specs.find(({ session }) => session === given.sessionId)
    if (!spec) throw new Error("no sandbox was created")
    const moved = specElsewhere(spec, { image: "i", hubUrl: "wss://this-hub.example" })
    expect(moved.environment["DO_WS_URL"]).toBe(given.doWsUrl)
    // The agent sends them over its link; their keys are nowhere here.
    expect(JSON.stringify([spec, await store.find(given.sessionId)])).not.toContain("key-of-a")
  })

  test("a sandbox with another token is not the one that was asked for, and a restore is no running sandbox", async () => {
    const again = (more: object) => call("POST", "/create-session", { ...given, ...more })
    expect((await again({})).status).toBe(200)
    for (const more of [
      { runnerToken: "another runner token of the caller" },
      { jwtSecret: "another gateway key of the caller" },
      { doWsUrl: "wss://other.example/ws" },
    ])
      expect(await again(more)).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
    const restored = await call("POST", "/restore-session", { ...given, snapshotImageId: "snap" })
    expect(restored).toMatchObject({ status: 409, body: { code: "has-sandbox" } })
  })

  test("only the provider's own word makes its status terminated", async () => {
    const { body } = await call("POST", "/create-session", given)
    const { sandboxId } = body
    const status = () => call("POST", "/session-status", { sandboxId })
    const found = await look(String(sandboxId))
    if (found.is !== "ok") throw new Error("the sandbox is not there")
    for (const [state, said] of [
      ["starting", "running"],
      ["running", "running"],
      ["paused", "paused"],
      ["stopped", "terminated"],
      ["dead", "terminated"],
    ] as const) {
      changed.look = async () => ({ is: "ok", value: { ...found.value, state } })
      expect((await status()).body).toEqual({ status: said })
    }
    for (const is of ["refused", "unknown"] as const) {
      changed.look = async () => ({ is, why: "401 for key sk-ant-abcdefgh12345678" })
      const { status: code, body: problem } = await status()
      expect(code).toBe(503)
      expect(JSON.stringify(problem)).not.toContain("sk-ant")
    }
  })
})

describe("a sandbox that is asked for", () => {
  test("files of one upload with the same name are all stored", async () => {
    const path = await running("U:1", "uma")
    const written = new Map<string, string>()
    const gateway = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        const name = new URL(request.url).searchParams.get("path") ?? ""
        written.set(name, await request.text())
        return Response.json({})
      },
    })
    changed.address = async () => ({ is: "ok", value: { url: gateway.url.origin, headers: {} } })
    const form = new FormData()
    for (const [name, content] of [
      ["image.png", "1"],
      ["image.png", "2"],
      ["image-2.png", "3"],
      ["鹭.txt", "4"],
      ["鹤.txt", "5"],
      [".env", "6"],
      ["env", "7"],
    ] as const)
      form.append("file", new File([content], name))
    const { body } = await call("POST", `${path}/uploads`, form, "uma")
    await gateway.stop(true)
    const paths = body["paths"] as readonly string[]
    expect(paths.map((one) => written.get(one))).toEqual(["1", "2", "3", "4", "5", "6", "7"])
    expect(paths.slice(0, 3)).toEqual([
      "uploads/image.png",
      "uploads/image-2.png",
      "uploads/image-2-2.png",
    ])
  })

  test("a gateway that does not answer is a sandbox to be asked again, not a fault of the server", async () => {
    const path = await running("A:1", "abe")
    changed.address = async () => ({ is: "ok", value: { url: "http://127.0.0.1:1", headers: {} } })
    const answer = await call("GET", `${path}/files`, undefined, "abe")
    expect(answer).toMatchObject({ status: 503, body: { code: "sandbox-away" } })
    expect(answer.headers.get("retry-after")).toBe("5")
  })

  test("above the quota a sleeping sandbox is not woken, and its caller is told at once", async () => {
    const first = await running("Q:1", "quinn")
    await call("POST", `${first}/pause?wait=1`, undefined, "quinn")
    await running("Q:2", "quinn")
    for (const [method, verb] of [
      ["POST", "resume?wait=1"],
      ["GET", "files"],
    ] as const) {
      const refused = await call(method, `${first}/${verb}`, undefined, "quinn")
      expect(refused).toMatchObject({ status: 429, body: { code: "quota" } })
      expect(refused.headers.get("retry-after")).toBe("30")
    }
    expect((await call("GET", `${first}/status`, undefined, "quinn")).body["status"]).toBe("paused")
  })

  test("a prompt for a session whose end the fleet has not heard of is refused, not a fault of the server", async () => {
    const path = await running("E:1", "eli")
    const id = path.split("/").at(-1) ?? ""
    const real = stack.hub.find(id)
    if (!real) throw new Error("the hub has no such session")
    const ended = spyOn(real, "status").mockReturnValue({ ...real.status(), status: "ended" })
    const refused = await call("POST", "/api/threads/E:1/prompt", { message: "hello" }, "eli")
    ended.mockRestore()
    expect(refused).toMatchObject({ status: 409, body: { code: "refused-by-hub" } })
  })

  test("a session that the operator deletes leaves its volume to be removed later", async () => {
    const path = await running("F:1", "finn")
    const session = path.split("/").at(-1)
    const deleted = await fetch(`${stack.hub.url}${path}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    })
    expect(await deleted.json()).toEqual({ forgotten: session })
    const left = await store.leftVolumes(Date.now(), 0, 10)
    expect(left).toEqual([{ session: String(session), provider: provider.name }])
  })

  test("the optional fields of a chat may be null", async () => {
    const chat = { chatSessionId: "c", expertIdentifier: null, projectId: null }
    const path = "/api/marketplace/expert/prepare-invoke"
    expect((await call("POST", path, chat, "nora")).status).toBe(200)
  })
})
