/** Durable Objects and a fleet elsewhere: reports of sessions to the fleet, and the fleet's calls about a session. */
import { z } from "zod"
import { systemClock, within } from "../../../lib/clock.ts"
import { readLimitedText, readRequestText } from "../../../lib/read-limited.ts"
import { problemOfSignature, signedPost } from "../../../lib/signed-request.ts"
import { channelAddress, MAIN_CHANNEL } from "../../../wire/channel.ts"
import { parseLimitedJson } from "../../../wire/json-limits.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import { type Owner, parseOwner } from "../../access/ownership.ts"
import { errorResponse } from "../../http-responses.ts"
import { parseJson } from "../../../lib/json.ts"
import { refusalOfRunner } from "../../session/admit-runner.ts"
import type { SessionActivity, Sql } from "../../session/ports.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

export const hasFleet = ({ FLEET, FLEET_URL, FLEET_KEY }: DurableEnvironment): boolean =>
  Boolean(FLEET_KEY && (FLEET ?? FLEET_URL))

/** A fleet that accepts a connection and never answers must not hold a report, which is repeated, or a person's link. */
const CALL_MS = 20_000
/** Of a call and of its answer. The longest is a prompt. */
const MAX_CALL_BYTES = 4 * 1024 * 1024

const callFleet = async (
  { FLEET, FLEET_URL, FLEET_KEY = "" }: DurableEnvironment,
  call: "activity" | "address",
  body: object,
): Promise<unknown> => {
  const base = (FLEET_URL || "http://fleet").replace(/\/$/, "")
  const request = await signedPost(FLEET_KEY, `${base}/api/hub/${call}`, body, Date.now())
  const asked = (async () => {
    const response = await (FLEET ? FLEET.fetch(request) : fetch(request))
    // The body must be read: the runtime allows a few open responses only.
    return {
      ok: response.ok,
      status: response.status,
      text: (await readLimitedText(response, MAX_CALL_BYTES)) ?? "",
    }
  })()
  if (!(await within(systemClock, CALL_MS, asked))) throw new Error("the fleet does not answer")
  const { ok, status, text } = await asked
  if (!ok) throw new Error(`the fleet answered ${status}`)
  return parseJson(text)
}

/** Rejects unless the fleet has stored the report. */
export const tellFleet = async (
  environment: DurableEnvironment,
  report: { readonly session: string; readonly owner: Owner; readonly activity: SessionActivity },
): Promise<void> => void (await callFleet(environment, "activity", report))

const addressAnswer = z.object({ url: z.string().nullable(), isAsleep: z.boolean().optional() })

/** The address of the gateway of a session's sandbox; null if it sleeps, undefined if the fleet has none, or does not answer. */
export const askGatewayUrl = async (
  environment: DurableEnvironment,
  session: string,
): Promise<string | null | undefined> => {
  if (!hasFleet(environment)) return undefined
  const answer = await callFleet(environment, "address", { session }).catch(() => undefined)
  const { url, isAsleep = false } = addressAnswer.safeParse(answer).data ?? {}
  return isAsleep ? null : (url ?? undefined)
}

export interface FleetCallHost {
  readonly environment: DurableEnvironment
  readonly sql: Sql
  readonly session: string
  readonly find: () => HostedSession | undefined
  readonly create: (owner: Owner) => Promise<void>
  /** Makes the session for the warm pool. */
  readonly reserve: () => Promise<void>
  /** Gives a session of the warm pool to an owner. Undefined if it is done, otherwise why it is refused. */
  readonly handOver: (owner: Owner, creator?: string) => Promise<string | undefined>
  readonly end: (why: string) => Promise<void>
  readonly gatewayKey: (generation: number) => Promise<string | undefined>
}

const bodies = {
  open: z.object({ owner: z.string() }),
  reserve: z.object({}),
  hand: z.object({ owner: z.string(), creator: z.string().min(1).max(255).optional() }),
  admit: z.object({
    generation: z.int().positive(),
    tokenHash: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  key: z.object({ generation: z.int().positive() }),
  note: z.object({ id: z.string().min(1).max(100), text: z.string().min(1).max(4000) }),
  prompt: z.object({ messageId: z.string().min(1).max(200), content: z.string().min(1) }),
  stop: z.object({}),
  end: z.object({ why: z.string().max(500) }),
} as const

type CallName = keyof typeof bodies
type Calls = {
  readonly [Name in CallName]: (
    body: z.output<(typeof bodies)[Name]>,
    host: FleetCallHost,
    session: HostedSession,
  ) => object | Promise<object>
}

class CallError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const mustParseOwner = (text: string): Owner => {
  const owner = parseOwner(text)
  if (owner === undefined) throw new CallError(400, "owner: expected user:<sub> or org:<id>")
  return owner
}

const calls: Omit<Calls, "open" | "reserve"> = {
  hand: async ({ owner, creator }, host) => {
    const refusal = await host.handOver(mustParseOwner(owner), creator)
    if (refusal !== undefined) throw new CallError(409, refusal)
    return {}
  },
  admit: async ({ generation, tokenHash }, { gatewayKey }, { session }) => {
    const refusal = refusalOfRunner(session.activity(), generation)
    if (refusal) throw new CallError(refusal.status, refusal.why)
    session.setRunnerToken(tokenHash, generation)
    return { gatewayKey: await gatewayKey(generation) }
  },
  key: async ({ generation }, { gatewayKey }) => ({ gatewayKey: await gatewayKey(generation) }),
  note: ({ id, text }, _host, { session }) => {
    session.note({ id, role: "system", content: text })
    return {}
  },
  prompt: ({ messageId, content }, _host, { session }) => {
    if (session.status().status === "ended") throw new CallError(410, "the session has ended")
    const problem = session.problemOfPrompt(messageId, content)
    if (problem !== undefined) throw new CallError(409, problem)
    session.prompt(
      { type: "prompt", messageId, content, ...channelAddress(MAIN_CHANNEL) },
      MAIN_CHANNEL,
    )
    return {}
  },
  stop: (_body, _host, { session }) => {
    session.stop(MAIN_CHANNEL)
    return {}
  },
  end: async ({ why }, { end }) => {
    await end(why)
    return {}
  },
}

const isCall = (name: string): name is CallName => Object.hasOwn(bodies, name)

const run = async (name: CallName, text: string, host: FleetCallHost): Promise<object> => {
  const parsed = bodies[name].safeParse(parseLimitedJson(text))
  if (!parsed.success) throw new CallError(400, `the body of ${name} is malformed`)
  if (name === "open") {
    const { owner } = parsed.data as z.output<typeof bodies.open>
    await host.create(mustParseOwner(owner))
    return { generation: host.find()?.session.generation() ?? 0 }
  }
  if (name === "reserve") {
    await host.reserve()
    return {}
  }
  const found = host.find()
  if (!found) throw new CallError(404, `session ${host.session} does not exist`)
  // The schema of this name has read the body.
  const call = calls[name] as (body: unknown, host: FleetCallHost, session: HostedSession) => object
  return call(parsed.data, host, found)
}

/** A number is stored until its signature expires, so that a restart of the object does not forget it. */
const isNewIn = (sql: Sql) => (nonce: string, until: number) => {
  sql.run(
    "CREATE TABLE IF NOT EXISTS fleet_nonces (nonce TEXT PRIMARY KEY, until INTEGER NOT NULL)",
  )
  sql.run("DELETE FROM fleet_nonces WHERE until <= ?", Date.now())
  const added = sql.all(
    "INSERT OR IGNORE INTO fleet_nonces (nonce, until) VALUES (?, ?) RETURNING nonce",
    nonce,
    until,
  )
  return added.length > 0
}

export const handleFleetCall = async (
  host: FleetCallHost,
  name: string,
  request: Request,
): Promise<Response> => {
  const { FLEET_KEY } = host.environment
  if (!FLEET_KEY) return errorResponse(404, "no such route")
  // The sender has not shown yet who it is.
  const body = await readRequestText(request, MAX_CALL_BYTES)
  if (typeof body === "number") return errorResponse(body, "the call is too large or too slow")
  const problem = await problemOfSignature({
    key: FLEET_KEY,
    now: Date.now(),
    request,
    body,
    isNew: isNewIn(host.sql),
  })
  if (problem !== undefined) return errorResponse(401, problem)
  if (!isCall(name)) return errorResponse(404, `the call ${name} does not exist`)
  try {
    return Response.json(await run(name, body, host))
  } catch (error) {
    if (error instanceof CallError) return errorResponse(error.status, error.message)
    throw error
  }
}
