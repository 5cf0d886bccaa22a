/** What a handler of the fleet's HTTP API gets, and the forms of answers and errors that several handlers share. */
import type { z } from "zod"
import { parseLimitedJson } from "../../wire/json-limits.ts"
import { GATEWAY_PORT } from "../core/names.ts"
import { redactError } from "../core/redact.ts"
import { previewUrl, statusOf } from "../core/statuses.ts"
import type { BaseSnapshots } from "../base-snapshot.ts"
import type { HubFollower } from "../follow-hub.ts"
import type { HubPort } from "../hub-port.ts"
import type { Keeper } from "../keeper.ts"
import type { Metrics } from "../metrics.ts"
import type { Pool } from "../pool.ts"
import { publicGateway } from "../providers/public-gateway.ts"
import type { SandboxAddress, SandboxProvider } from "../providers/contract.ts"
import type { FleetStore, StoredSession } from "../store/ports.ts"
import type { Sweeper } from "../sweeper.ts"
import type { Log } from "../../lib/log.ts"

export interface ApiParts {
  readonly keeper: Keeper
  readonly sweeper: Sweeper
  readonly store: FleetStore
  readonly provider: SandboxProvider
  readonly hub: HubPort
  readonly follower: HubFollower
  readonly metrics: Metrics
  readonly bases: Pick<BaseSnapshots, "make">
  readonly pool: Pick<Pool, "claim" | "settle">
  /** The idle time of a sandbox for which the caller gives none. */
  readonly idleMs: number
  readonly log: Log
  readonly now: () => number
}

export type Form = Awaited<ReturnType<Request["formData"]>>

export interface ApiCall {
  readonly request: Request
  readonly url: URL
  readonly params: Readonly<Record<string, string>>
  /** The owner that the caller acts for. */
  readonly owner: string
  /** The session that the path names; the caller may reach it. */
  readonly session: StoredSession
  readonly body: string
  /** The form of a multipart body; undefined if it is none. */
  readonly form: () => Promise<Form | undefined>
  /** The session that the body names, if the caller may send prompts to it. Throws a 403 or 404 if not. */
  readonly mustPrompt: (session: string) => Promise<StoredSession>
}

export type Handler = (call: ApiCall) => Promise<object | Response>

export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly retryAfterSeconds: number | undefined
  constructor(status: number, code: string, message: string, retryAfterSeconds?: number) {
    super(message)
    this.status = status
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export const MAX_WAIT_MS = 120_000
/** Of a sandbox's answer that is read as a whole. The output of a program, twice 1 MB, has up to six times as much in JSON. */
export const MAX_ANSWER = 16 * 1024 * 1024

/** The body as its schema reads it. The message names the field, never its value. */
export const readBody = <Schema extends z.ZodType>(
  schema: Schema,
  text: string,
): z.output<Schema> => {
  const parsed = schema.safeParse(text === "" ? {} : parseLimitedJson(text))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const path = issue?.path.join(".") ?? ""
  throw new ApiError(
    400,
    "bad-request",
    `${path === "" ? "the body" : path}: ${issue?.message ?? "malformed"}`,
  )
}

/** A parameter that is on or off. Without a value it is on. */
export const flagOf = ({ searchParams }: URL, name: string): boolean => {
  const text = searchParams.get(name)
  if (text === null || text === "0" || text === "false") return false
  if (text === "" || text === "1" || text === "true") return true
  throw new ApiError(400, "bad-request", `${name}: expected 1 or 0`)
}

export const viewOf = (session: StoredSession) => {
  const { status, threadStatus, providerSandboxId } = statusOf(session.life)
  return {
    sessionId: session.id,
    ...(session.threadKey !== undefined && { threadKey: session.threadKey }),
    provider: session.provider,
    status,
    threadStatus,
    providerSandboxId,
    generation: session.life.generation,
    // Its id does not tell: a claimed session keeps the one that it had in the pool.
    ...(session.kind === "pool" && session.life.wanted !== "ended" && { inPool: true }),
    ...(session.life.lastError !== undefined && {
      lastError: redactError(session.life.lastError, []),
    }),
    updatedAt: session.updatedAt,
  }
}

/** The address of the sandbox's gateway for the fleet's own calls, fresh; undefined while there is none. */
export const gatewayAddressOf = async (
  provider: SandboxProvider,
  { life }: StoredSession,
): Promise<SandboxAddress | undefined> => {
  if (life.ref === undefined || life.phase !== "running") return undefined
  const address = await provider.address(life.ref, GATEWAY_PORT)
  if (address.is !== "ok") return undefined
  return { ...address.value, url: address.value.url.replace(/\/$/, "") }
}

/** The same for callers and browsers. */
export const gatewayUrlOf = async (
  provider: SandboxProvider,
  { life }: StoredSession,
): Promise<string | null> => {
  if (life.ref === undefined || life.phase !== "running") return null
  const found = await publicGateway(provider, life.ref)
  return found.is === "ok" ? found.value : null
}

export const containerUrlOf = async (provider: SandboxProvider, session: StoredSession) => {
  const gateway = await gatewayUrlOf(provider, session)
  return gateway === null ? null : previewUrl(gateway)
}

/** A caller that waits for a sandbox gets an error at once if there cannot be one. */
export const refuseAboveQuota = async (
  { keeper, now }: Pick<ApiParts, "keeper" | "now">,
  session: Parameters<Keeper["quotaRefusal"]>[0],
): Promise<void> => {
  const refusal = await keeper.quotaRefusal(session)
  if (!refusal) return
  const seconds = Math.max(1, Math.ceil((refusal.retryAt - now()) / 1000))
  throw new ApiError(429, "quota", refusal.why, seconds)
}

export const refuseEnded = ({ id, life }: StoredSession): void => {
  if (life.phase === "ended" || life.wanted === "ended")
    throw new ApiError(409, "already-finished", `the session ${id} has ended`)
}

/**
 * Another session agent starts its sandboxes itself: its link would refuse the runner of one that this call starts, and
 * nobody would end that one.
 */
export const refuseAsleepElsewhere = ({ id, kind, life }: StoredSession): void => {
  if (kind === "external" && life.phase !== "running" && life.wanted !== "running")
    throw new ApiError(
      409,
      "asleep",
      `the sandbox of the session ${id} does not run: only its session agent starts it`,
    )
}

/** Only its agent decides whether the sandbox of another session agent runs: this call does not stop a hibernation either. */
export const wake = async (
  { keeper }: Pick<ApiParts, "keeper">,
  session: StoredSession,
): Promise<StoredSession> =>
  session.kind === "external" ? session : ((await keeper.want(session.id, "running")) ?? session)

/** A caller that wants its files saved is told at once if the provider cannot do it. */
export const refuseUnsaved = ({ name, can }: Pick<SandboxProvider, "name" | "can">): void => {
  if (can.snapshot === "none")
    throw new ApiError(
      409,
      "not-supported",
      `the provider ${name} makes no snapshots: pause the sandbox instead`,
    )
}
