/** The runner's control server on loopback, for programs in the sandbox: git credentials, snapshot hooks, workflows. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import { sameText } from "../../lib/constant-time.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { sessionFolder } from "../../lib/state-folders.ts"
import type { GitTokens } from "./git-tokens.ts"

const hooks = ["pre-snapshot", "post-snapshot"] as const
export type Hook = (typeof hooks)[number]

export interface ControlOptions {
  readonly stateDir: string
  /** The token of the agent's tools: grants git credentials and workflows, but not hooks. */
  readonly apiToken: string
  readonly credentialFor: GitTokens["credentialFor"]
  readonly runHook: (hook: Hook) => Promise<Readonly<Record<string, unknown>>>
  /** Aborted when the caller disconnects. */
  readonly runWorkflow: (
    order: unknown,
    caller: "owner" | "agent",
    disconnected: AbortSignal,
  ) => Promise<object>
  readonly log: Log
}

export interface Control {
  readonly url: string
  readonly stop: () => Promise<void>
}

const fileOf = (stateDir: string): string => join(sessionFolder(stateDir), "control.json")
/** Contains the address only: the agent may be another user, and has a token of its own. */
const addressFileOf = (stateDir: string): string => join(sessionFolder(stateDir), "control-url")
/** The state directory, for every program of the agent. */
export const RUNNER_DIR = "SANDPIPER_RUNNER_DIR"
/** For the agent's programs: the token, and where the runner that accepts it has written its address. */
export const controlVariables = (
  stateDir: string,
  apiToken: string,
): Readonly<Record<string, string>> => ({
  SANDPIPER_API_TOKEN: apiToken,
  [RUNNER_DIR]: stateDir,
})
/** The state directory of the runner that has started this program; undefined outside a sandbox. */
export const runnerDirOf = (
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined => environment[RUNNER_DIR] || undefined
/** Workflows are the largest requests, and far below this. */
const MAX_BODY_BYTES = 1024 * 1024
const credentialRequest = z.object({ protocol: z.string(), host: z.string() })

/** Writes its address and a fresh owner token to a file that only the runner's user can read. */
export const startControl = async (options: ControlOptions): Promise<Control> => {
  const { log, stateDir } = options
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")
  const handle = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    const isOwner = hasToken(request, token)
    if (request.method !== "POST") return refusal(405, "only POST")
    if (pathname === "/git-credential" && (isOwner || hasToken(request, options.apiToken))) {
      const asked = credentialRequest.safeParse(await request.json().catch(() => undefined))
      const found = asked.success ? await options.credentialFor(asked.data) : undefined
      if (found === undefined) return refusal(404, "no credential for that host")
      return Response.json({ username: found.username, password: found.password })
    }
    if (pathname === "/workflow" && (isOwner || hasToken(request, options.apiToken))) {
      const caller = isOwner ? "owner" : "agent"
      return Response.json(await options.runWorkflow(await request.json(), caller, request.signal))
    }
    const hook = hooks.find((name) => pathname === `/hooks/${name}`)
    if (hook === undefined || !isOwner) return refusal(403, "not allowed")
    return Response.json(await options.runHook(hook))
  }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    maxRequestBodySize: MAX_BODY_BYTES,
    idleTimeout: 0,
    fetch: handle,
    error: (error) => {
      log.error("control.failed", { error: describeError(error) })
      return refusal(500, describeError(error))
    },
  })
  const url = `http://127.0.0.1:${server.port}`
  try {
    await mkdir(sessionFolder(stateDir), { recursive: true, mode: 0o700 })
    await writeFile(fileOf(stateDir), JSON.stringify({ url, token }), { mode: 0o600 })
    await writeFile(addressFileOf(stateDir), url, { mode: 0o644 })
  } catch (error) {
    // With a full disk the sandbox runs without hooks.
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

const hasToken = (request: Request, token: string): boolean =>
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
      `no runner found: ${fileOf(stateDir)} cannot be read (is the runner running? is --state-dir right?)`,
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
    // A long workflow sends nothing until it ends.
    timeout: false,
    // Ignores HTTP_PROXY: the address is on this machine.
    proxy: "",
  })
  const report = z.record(z.string(), z.unknown()).parse(await response.json())
  if (!response.ok) throw new ControlError(String(report["error"]))
  return report
}
