/** The route table decides who may call: each row with each kind of credential, over real requests. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Access, type Route, routes } from "../../../src/runner/gateway/routes.ts"
import { createTestServices } from "../sandbox/services/kit.ts"
import {
  api,
  API_TOKEN,
  logIn,
  makeControlToken,
  makeToken,
  startTestGateway,
  type TestGateway,
} from "./kit.ts"

const services = createTestServices()
let gateway: TestGateway
let backend: Bun.Server<undefined>
let cookie = ""

beforeAll(async () => {
  backend = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("a backend") })
  const port = backend.port ?? 0
  gateway = startTestGateway({
    backends: { vscode: port, vnc: port, ttyd: port },
    opencodePort: () => port,
    v1Server: async () => ({ port, token: "the token of the gateway itself" }),
    services: services.ports,
    workspace: {
      save: async () => ({ files: 0, uploaded: 0, bytes: 0, removed: 0, leftOut: 0 }),
      restoreAgain: async () => 0,
    },
  })
  await services.services.start({
    name: "web",
    command: "exec sleep 1000",
    cwd: ".",
    port: undefined,
  })
  const app = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("an app") })
  cleanups.push(() => app.stop(true))
  await api(gateway, "POST", "/tunnels", { name: "app", port: app.port })
  cookie = await logIn(gateway)
})
const cleanups: (() => unknown)[] = []
afterAll(async () => {
  await gateway.stop()
  await backend.stop(true)
  await services.end()
  for (const clean of cleanups) await clean()
})

type Credential =
  | "no credential"
  | "the tools' token"
  | "a person's cookie"
  | "a person's token"
  | "a control token"

const headersOf: { readonly [Kind in Credential]: () => Record<string, string> } = {
  "no credential": () => ({}),
  "the tools' token": () => ({ authorization: `Bearer ${API_TOKEN}` }),
  "a person's cookie": () => ({ cookie }),
  "a person's token": () => ({ authorization: `Bearer ${makeToken()}` }),
  "a control token": () => ({ authorization: `Bearer ${makeControlToken()}` }),
}
const credentials = Object.keys(headersOf) as Credential[]

/** The meaning of each access, and the only place in this test where it is written down. */
const admits: { readonly [Kind in Access]: readonly Credential[] } = {
  open: credentials,
  observer: ["the tools' token", "a person's token"],
  person: ["a person's cookie", "a person's token"],
  tool: ["the tools' token"],
  control: ["a control token"],
  "tool+control": ["the tools' token", "a control token"],
  "person+control": ["a person's cookie", "a person's token", "a control token"],
  "tool+person+control": [
    "the tools' token",
    "a person's cookie",
    "a person's token",
    "a control token",
  ],
  // OpenCode checks its own password.
  opencode: credentials,
}

/** Requests of routes that need more than a GET of their address. */
const requests: Partial<Record<Route["name"], { path: string; method: string; body?: string }>> = {
  services: { path: "/api/services", method: "GET" },
  expose: { path: "/api/expose", method: "POST", body: '{"port":4999}' },
  website: { path: "/api/website/restart", method: "POST", body: '{"waitSeconds":0}' },
  "service-log": { path: "/api/logs/web", method: "GET" },
  "api-terminal": { path: "/api/terminal", method: "GET" },
  workspace: { path: "/api/workspace/restore", method: "POST" },
  env: { path: "/api/env/scrub", method: "POST" },
}

/** A WebSocket: the request is admitted and told to upgrade. */
const admittedStatus: Partial<Record<Route["name"], number>> = { "api-terminal": 426 }

const call = ({ name, path }: Route, credential: Credential): Promise<Response> => {
  const request = requests[name]
  if (request !== undefined) {
    const { path: address, ...init } = request
    return fetch(`${gateway.url}${address}`, { ...init, headers: headersOf[credential]() })
  }
  const isHost = path.startsWith("//")
  const address = isHost ? "/" : path.replace(":name", "app").replace("/*", "/")
  const rest = address === "/api/" ? "/api/tunnels" : address
  return fetch(`${gateway.url}${rest}`, {
    headers: { ...headersOf[credential](), ...(isHost && { host: "app--sandbox.example" }) },
    redirect: "manual",
  })
}

describe("a route", () => {
  for (const route of routes) {
    for (const credential of credentials) {
      const isAdmitted = admits[route.access].includes(credential)
      const verb = isAdmitted ? "admits" : "refuses"
      test(`${route.name} (${route.access}) ${verb} a request with ${credential}`, async () => {
        const response = await call(route, credential)
        if (isAdmitted) expect(response.status).toBe(admittedStatus[route.name] ?? 200)
        else expect([401, 429]).toContain(response.status)
        await response.body?.cancel()
      })
    }
  }

  test("a route of a person cannot be reached with the tools' token, in any place where a token is read", async () => {
    for (const route of routes.filter(({ access }) => access === "person")) {
      const isHost = route.path.startsWith("//")
      const path = isHost ? "/" : route.path.replace(":name", "app").replace("/*", "/")
      const headers = isHost ? { host: "app--sandbox.example" } : {}
      for (const query of [`?token=${API_TOKEN}`, `?ticket=${API_TOKEN}`]) {
        const response = await fetch(`${gateway.url}${path}${query}`, { headers })
        expect([401, 429]).toContain(response.status)
      }
      const cookies = { ...headers, cookie: `gateway_session=${API_TOKEN}` }
      expect((await fetch(`${gateway.url}${path}`, { headers: cookies })).status).toBe(401)
    }
  })
})
