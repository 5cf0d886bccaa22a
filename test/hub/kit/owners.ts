/** People, their tokens and their sessions on a host, for the tests of owners and access. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SignJWT } from "jose"
import { allScopes } from "../../../src/hub/access/scopes.ts"
import { connectClient, type TestClient } from "./client.ts"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./fake-runner.ts"

export const JWT_SECRET = "a-secret-of-the-tests-with-more-than-32-bytes"
export const ISSUER = "https://id.test"
export const AUDIENCE = "hub.test"
export const GATEWAY_SECRET = "gateway-secret-of-the-tests"

export interface OwnersHost {
  readonly url: string
  readonly clientToken: string
  /** Every file that the host writes is below it. */
  readonly folder: string
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
}

export interface Claims {
  readonly org?: string
  readonly scope?: string
  readonly iss?: string
  readonly aud?: string
  readonly name?: string
  readonly email?: string
  readonly seconds?: number
  /** Milliseconds since the epoch, a full second. */
  readonly expiresAt?: number
  readonly secret?: string
}

export const tokenOf = (sub: string, claims: Claims = {}): Promise<string> => {
  const { org, name, email, scope = allScopes.join(" "), seconds = 600 } = claims
  return new SignJWT({ scope, ...(org && { org }), ...(name && { name }), ...(email && { email }) })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(sub)
    .setIssuer(claims.iss ?? ISSUER)
    .setAudience(claims.aud ?? AUDIENCE)
    .setExpirationTime(Math.floor((claims.expiresAt ?? Date.now() + seconds * 1000) / 1000))
    .sign(new TextEncoder().encode(claims.secret ?? JWT_SECRET))
}

export interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Headers
}

export interface OwnersStage {
  readonly call: (token: string, method: string, path: string, body?: object) => Promise<Answer>
  /** A new session of this owner with a runner token; returns its id. */
  readonly session: (
    owner: string,
    fields?: object,
  ) => Promise<{ id: string; runnerToken: string; gatewayKey: string }>
  readonly runner: (
    session: { readonly id: string; readonly runnerToken: string },
    options?: Partial<FakeRunnerOptions>,
  ) => FakeRunner
  readonly client: (token: string, session: string) => Promise<TestClient>
  readonly end: () => Promise<void>
}

export const createStage = (host: () => OwnersHost): OwnersStage => {
  const runners: FakeRunner[] = []
  const clients: TestClient[] = []
  const folders: string[] = []
  const call: OwnersStage["call"] = async (token, method, path, body) => {
    const stopped = new AbortController()
    const response = await fetch(`${host().url}${path}`, {
      method,
      // Each call has an address of its own: wrong tokens are counted per address.
      headers: { Authorization: `Bearer ${token}`, "cf-connecting-ip": crypto.randomUUID() },
      signal: stopped.signal,
      // A refusal may leave the body unread, after which workerd closes the connection.
      keepalive: false,
      ...(body && { body: JSON.stringify(body) }),
    })
    const { status, headers } = response
    if (headers.get("content-type")?.startsWith("application/json")) {
      return { status, headers, body: (await response.json()) as Record<string, unknown> }
    }
    // An event stream does not end by itself.
    stopped.abort()
    return { status, headers, body: {} }
  }
  return {
    call,
    session: async (owner, fields = {}) => {
      const id = `s-${crypto.randomUUID()}`
      const runnerToken = `runner-token-${crypto.randomUUID()}`
      const made = await call(host().clientToken, "PUT", `/sessions/${id}`, {
        owner,
        runnerToken,
        ...fields,
      })
      if (made.status !== 201) throw new Error(`not made: ${JSON.stringify(made.body)}`)
      return { id, runnerToken, gatewayKey: String(made.body["gatewayKey"]) }
    },
    runner: ({ id, runnerToken }, options = {}) => {
      const stateDir = mkdtempSync(join(tmpdir(), "owners-runner-"))
      folders.push(stateDir)
      const started = startFakeRunner({
        url: `${host().url.replace(/^http/, "ws")}/sessions/${id}/ws`,
        token: runnerToken,
        stateDir,
        answer: ({ content }) => [content],
        eager: true,
        ...options,
      })
      runners.push(started)
      return started
    },
    client: async (token, session) => {
      const connected = await connectClient(host().url, token, { session })
      clients.push(connected)
      return connected
    },
    end: async () => {
      for (const client of clients.splice(0)) client.close()
      await Promise.all(runners.splice(0).map((runner) => runner.stop()))
      for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The message of a rejected request of a runner. */
export const refusalOf = (asked: Promise<unknown>): Promise<string> =>
  asked.then(
    () => "it was not refused",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )
