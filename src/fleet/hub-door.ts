/** The routes by which a hub in another process reports its sessions and asks for addresses. Each call is signed and accepted once. */
import { z } from "zod"
import { sessionActivity } from "../hub/session/ports.ts"
import type { Clock } from "../lib/clock.ts"
import { readRequestText } from "../lib/read-limited.ts"
import { parseLimitedJson } from "../wire/json-limits.ts"
import { problemOfSignature } from "../lib/signed-request.ts"
import type { Door } from "./door.ts"
import type { HubFollower } from "./follow-hub.ts"
import type { FleetStore } from "./store/ports.ts"

export interface HubDoorOptions {
  readonly key: string
  readonly follower: HubFollower
  readonly store: FleetStore
  readonly clock: Clock
  readonly gatewayUrl: (session: string) => Promise<string | null | undefined>
}

const MAX_BODY = 64 * 1024

const report = z.object({
  session: z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/),
  owner: z.string().regex(/^(user|org):[\x21-\x7e][\x20-\x7e]{0,254}$/),
  activity: sessionActivity,
})

const question = z.object({ session: report.shape.session })

export const createHubDoor =
  ({ key, follower, store, clock, gatewayUrl }: HubDoorOptions): Door =>
  async (request) => {
    const { pathname } = new URL(request.url)
    const call = /^\/api\/hub\/(activity|address)$/.exec(pathname)?.[1]
    if (call === undefined || request.method !== "POST") return undefined
    const refuse = (status: number, code: string, error: string) =>
      Response.json({ error, code, requestId: crypto.randomUUID() }, { status })
    // The sender has not shown yet who it is.
    const body = await readRequestText(request, MAX_BODY)
    if (body === 413) return refuse(413, "too-large", "the report is too large")
    if (body === 408) return refuse(408, "too-slow", "the report did not come to its end in time")
    const problem = await problemOfSignature({
      key,
      now: clock.now(),
      request,
      body,
      // A lease of a random owner exists once, for all replicas and after a restart.
      isNew: (nonce, until) =>
        store.lease(`nonce:${nonce}`, crypto.randomUUID(), clock.now(), until),
    })
    if (problem !== undefined) return refuse(401, "unauthorized", problem)
    if (call === "address") {
      const asked = question.safeParse(parseLimitedJson(body))
      if (!asked.success) return refuse(400, "bad-request", "the question is malformed")
      const url = await gatewayUrl(asked.data.session)
      return Response.json({ url: url ?? null, isAsleep: url === null })
    }
    const parsed = report.safeParse(parseLimitedJson(body))
    if (!parsed.success) return refuse(400, "bad-request", "the report is malformed")
    await follower.follow(parsed.data)
    return Response.json({ ok: true })
  }
