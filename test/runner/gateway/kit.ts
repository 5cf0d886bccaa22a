/** A gateway for tests, tokens for it, and a client that sends raw bytes. */
import { createHmac } from "node:crypto"
import { brotliCompressSync, gzipSync } from "node:zlib"
import { createTerminals } from "../../../src/runner/sandbox/terminals.ts"
import { type Clock, systemClock } from "../../../src/lib/clock.ts"
import {
  type Gateway,
  type GatewayOptions,
  startGateway,
} from "../../../src/runner/gateway/gateway.ts"
import { recordingLog } from "../../kit/log.ts"

const emptyPage = {
  type: "text/html; charset=utf-8",
  hash: "0",
  isImmutable: false,
  br: new Uint8Array(brotliCompressSync("a terminal")),
  gz: new Uint8Array(gzipSync("a terminal")),
}

export const SESSION = "session-of-the-test"
export const SECRET = "a key of the gateway's tests"
export const API_TOKEN = "api-token-of-the-tests-0123456789abcdef"

export interface TestGateway extends Gateway {
  readonly url: string
  readonly log: string[]
  readonly announced: unknown[]
  /** The stored tunnels. */
  readonly memory: { tunnels: string | undefined }
}

export const startTestGateway = (change: Partial<GatewayOptions> = {}): TestGateway => {
  const lines: string[] = []
  const announced: unknown[] = []
  const memory: { tunnels: string | undefined } = { tunnels: undefined }
  const gateway = startGateway({
    host: "127.0.0.1",
    port: 0,
    sessionId: SESSION,
    jwtSecret: SECRET,
    apiToken: API_TOKEN,
    allowedOrigins: ["https://app.example.com"],
    backends: { vscode: 1, vnc: 2, ttyd: 3 },
    clock: systemClock,
    log: recordingLog(lines),
    opencodePort: () => undefined,
    components: () => ({ agent: { state: "ready", since: Date.now(), essential: true } }),
    gauges: () => [],
    loadTunnels: () => memory.tunnels,
    saveTunnels: (text) => {
      memory.tunnels = text
    },
    announceTunnels: (tunnels) => void announced.push(tunnels),
    workspace: undefined,
    terminal: testTerminals(systemClock),
    request: async () => ({}),
    notify: () => {},
    services: unusedServices(),
    ...change,
  })
  return { ...gateway, url: `http://127.0.0.1:${gateway.port}`, log: lines, announced, memory }
}

export const testTerminals = (clock: Clock): NonNullable<GatewayOptions["terminal"]> => ({
  terminals: createTerminals({
    workDir: "/",
    environment: { PATH: process.env["PATH"] ?? "", HOME: "/" },
    user: undefined,
    owner: "test",
    clock,
    command: ["bash", "--norc"],
  }),
  files: new Map([["terminal/index.html", emptyPage]]),
})

/** For tests that call no operation on services: creating real ones for each gateway would cost time. */
const unusedServices = (): GatewayOptions["services"] => {
  const refuse = () => {
    throw new Error("this test gateway has no services")
  }
  const services = new Proxy({}, { get: (_, name) => (name === "logOf" ? () => {} : refuse) })
  return Object.assign(Object.create(null), { services, envFiles: services })
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url")

interface TokenChange {
  readonly header?: Record<string, unknown>
  readonly claims?: Record<string, unknown>
  readonly secret?: string
  readonly signature?: string
}

/** A token as the platform signs it, or with changes for a test of attacks. */
export const makeToken = ({ header, claims, secret, signature }: TokenChange = {}): string => {
  const now = Math.floor(Date.now() / 1000)
  const body = [
    encode({ alg: "HS256", typ: "JWT", ...header }),
    encode({ sub: "user-1", sid: SESSION, iat: now, exp: now + 900, ...claims }),
  ].join(".")
  const signed = createHmac("sha256", secret ?? SECRET)
    .update(body)
    .digest("base64url")
  return `${body}.${signature ?? signed}`
}

/** A control token as the control plane signs it, or with changes; a claim of `undefined` is left out. */
export const makeControlToken = ({ claims, ...change }: TokenChange = {}): string => {
  const now = Math.floor(Date.now() / 1000)
  return makeToken({
    ...change,
    claims: {
      sub: undefined,
      scope: "control",
      jti: crypto.randomUUID(),
      iat: now,
      exp: now + 300,
      ...claims,
    },
  })
}

/** Logs in with a token and returns the cookie. */
export const logIn = async (
  gateway: { readonly url: string },
  path = "/vscode/",
): Promise<string> => {
  const response = await fetch(`${gateway.url}${path}?token=${makeToken()}`, {
    redirect: "manual",
    headers: { accept: "text/html" },
  })
  const cookie = response.headers.get("set-cookie")?.split(";")[0]
  if (cookie === undefined) throw new Error(`no cookie, status ${response.status}`)
  return cookie
}

export const api = (
  gateway: { readonly url: string },
  method: string,
  path: string,
  body?: unknown,
): Promise<Response> =>
  fetch(`${gateway.url}/api${path}`, {
    method,
    headers: { authorization: `Bearer ${API_TOKEN}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

/**
 * Sends raw bytes and returns everything received until the gateway closes the connection. A request that does not make it close says
 * `Connection: close`; for an upgrade, `isWhole` tells when everything has come.
 */
export const speak = (
  port: number,
  text: string | Uint8Array,
  isWhole: (received: string) => boolean = () => false,
): Promise<string> =>
  new Promise((resolve, reject) => {
    let got = ""
    Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (socket) => void socket.write(text),
        data: (socket, bytes) => {
          got += bytes.toString("latin1")
          if (isWhole(got)) socket.terminate()
        },
        close: () => resolve(got),
        error: () => resolve(got),
      },
    }).catch(reject)
  })

export const statusOf = (answer: string): number =>
  Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)
