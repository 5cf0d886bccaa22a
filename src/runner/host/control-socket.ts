/** What this machine's own programs may ask of the runner, over loopback and with a token: git's passwords, hooks, workflows. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import { sameText } from "../../lib/constant-time.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { type Credential, credentialFor } from "./repository-rules.ts"

const hooks = ["pre-snapshot", "post-snapshot"] as const
export type Hook = (typeof hooks)[number]

export interface ControlOptions {
  readonly stateDir: string
  /** May ask for git's passwords; the agent's tools hold it. */
  readonly apiToken: string
  /** As they are now: a restored sandbox may have been given others. */
  readonly credentials: () => readonly Credential[]
  readonly runHook: (hook: Hook) => Promise<Readonly<Record<string, unknown>>>
  /** Cancelled when whoever asks goes away. */
  readonly runWorkflow: (order: unknown, gone: AbortSignal) => Promise<object>
  readonly log: Log
}

export interface Control {
  readonly url: string
  readonly stop: () => Promise<void>
}

const fileOf = (stateDir: string): string => join(stateDir, "control.json")
/** The address alone: the agent, who has a token of its own, may be another user. */
const addressFileOf = (stateDir: string): string => join(stateDir, "control-url")
/** A workflow is written by hand, and much smaller. */
const MOST_BODY = 1024 * 1024
const credentialQuestion = z.object({ protocol: z.string(), host: z.string() })

/** The address and a token of its own lie in a file that only this user reads; they are worth nothing after the end. */
export const startControl = async (options: ControlOptions): Promise<Control> => {
  const { log, stateDir } = options
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")
  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    const isOwner = carries(request, token)
    if (request.method !== "POST") return refusal(405, "only POST")
    if (pathname === "/git-credential" && (isOwner || carries(request, options.apiToken))) {
      const question = credentialQuestion.safeParse(await request.json().catch(() => undefined))
      const found = question.success
        ? credentialFor(options.credentials(), question.data)
        : undefined
      if (found === undefined) return refusal(404, "no credential for that host")
      return Response.json({ username: found.username, password: found.password })
    }
    if (pathname === "/workflow" && (isOwner || carries(request, options.apiToken)))
      return Response.json(await options.runWorkflow(await request.json(), request.signal))
    const hook = hooks.find((name) => pathname === `/hooks/${name}`)
    if (hook === undefined || !isOwner) return refusal(403, "not allowed")
    return Response.json(await options.runHook(hook))
  }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    maxRequestBodySize: MOST_BODY,
    idleTimeout: 0,
    fetch: answer,
    error: (error) => {
      log.error("control.failed", { error: describeError(error) })
      return refusal(500, describeError(error))
    },
  })
  const url = `http://127.0.0.1:${server.port}`
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 })
    await writeFile(fileOf(stateDir), JSON.stringify({ url, token }), { mode: 0o600 })
    await writeFile(addressFileOf(stateDir), url, { mode: 0o644 })
  } catch (error) {
    // A full disk takes the hooks away, not the sandbox.
    log.warn("control.not-announced", { error: describeError(error) })
  }
  return {
    url,
    stop: async () => {
      await server.stop(true)
      for (const file of [fileOf(stateDir), addressFileOf(stateDir)])
        await rm(file, { force: true })
    },
  }
}

const refusal = (status: number, error: string): Response => Response.json({ error }, { status })

const carries = (request: Request, token: string): boolean =>
  sameText(request.headers.get("authorization") ?? "", `Bearer ${token}`)

export class ControlError extends Error {
  override readonly name = "ControlError"
}

export interface ControlAddress {
  readonly url: string
  readonly token: string
}

const addressShape = z.object({ url: z.string(), token: z.string() })

export const findControl = async (
  stateDir: string,
  agentToken?: string,
): Promise<ControlAddress> => {
  try {
    if (agentToken)
      return { url: await readFile(addressFileOf(stateDir), "utf8"), token: agentToken }
    return addressShape.parse(JSON.parse(await readFile(fileOf(stateDir), "utf8")))
  } catch (error) {
    throw new ControlError(
      `no runner is found by ${fileOf(stateDir)} (is it running? is --state-dir right?)`,
      { cause: error },
    )
  }
}

export const askControl = async (
  { url, token }: ControlAddress,
  path: string,
  body: unknown,
  limitMs: number,
): Promise<Readonly<Record<string, unknown>>> => {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(limitMs),
    // What takes long says nothing meanwhile.
    timeout: false,
    // A proxy has no business with this machine's own addresses.
    proxy: "",
  })
  const answer = z.record(z.string(), z.unknown()).parse(await response.json())
  if (!response.ok) throw new ControlError(String(answer["error"]))
  return answer
}
