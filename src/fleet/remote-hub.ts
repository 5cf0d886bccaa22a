/** The hub of another process, for example Durable Objects: calls over HTTP, signed with the key of the fleet. */
import { z } from "zod"
import { type Clock, sleep } from "../lib/clock.ts"
import { parseJson } from "../lib/json.ts"
import { describeError, type Log } from "../lib/log.ts"
import { readLimitedText } from "../lib/read-limited.ts"
import { signedPost } from "../lib/signed-request.ts"
import { HubAway, type HubPort, HubRefusal } from "./hub-port.ts"

export interface RemoteHubOptions {
  readonly url: string
  readonly key: string
  readonly clock: Clock
  readonly log: Log
}

const CALL_MS = 20_000
const NOTE_ATTEMPTS = 6

const answer = z.object({ gatewayKey: z.string().optional() })
const MAX_ANSWER_BYTES = 4 * 1024 * 1024
/** A hub of an earlier version does not name it. */
const opened = z.object({ generation: z.number().default(0) })
const refusal = z.object({ error: z.object({ message: z.string() }) })

export const createRemoteHub = ({ url, key, clock, log }: RemoteHubOptions): HubPort => {
  const base = url.replace(/\/$/, "")
  const call = async (session: string, name: string, body: object): Promise<unknown> => {
    const target = `${base}/fleet/sessions/${encodeURIComponent(session)}/${name}`
    const request = await signedPost(key, target, body, clock.now())
    const limit = AbortSignal.timeout(CALL_MS)
    const [response, text] = await fetch(request, { signal: limit })
      .then(
        async (answered) =>
          [answered, (await readLimitedText(answered, MAX_ANSWER_BYTES)) ?? ""] as const,
      )
      .catch((cause: unknown) => {
        throw new HubAway(`the hub did not answer ${name}: ${describeError(cause)}`, { cause })
      })
    if (response.ok) return parseJson(text)
    const said = refusal.safeParse(parseJson(text)).data?.error.message
    const why = `the hub answered ${response.status} to ${name}: ${said ?? "no reason given"}`
    throw response.status < 500 ? new HubRefusal(why) : new HubAway(why)
  }
  return {
    admitRunner: async (session, generation, tokenHash) => {
      const { gatewayKey } = answer.parse(await call(session, "admit", { generation, tokenHash }))
      const socket = `${base.replace(/^http/, "ws")}/sessions/${encodeURIComponent(session)}/ws`
      return { runnerUrl: socket, gatewayKey }
    },
    gatewayKey: async (session, generation) =>
      answer.parse(await call(session, "key", { generation })).gatewayKey,
    note: async (session, id, text) => {
      for (let attempt = 1; ; attempt++) {
        try {
          return void (await call(session, "note", { id, text }))
        } catch (error) {
          if (error instanceof HubRefusal || attempt >= NOTE_ATTEMPTS) {
            log.warn("fleet.note-lost", { session, error: String(error) })
            return
          }
          await sleep(clock, 1000 * 2 ** attempt)
        }
      }
    },
    open: async (session, owner) => opened.parse(await call(session, "open", { owner })).generation,
    reserve: async (session) => void (await call(session, "reserve", {})),
    handOver: async (session, owner, creator) =>
      void (await call(session, "hand", { owner, creator })),
    // The hub there does not know the fleet's credentials: an owner with some gets a sandbox that is started with them.
    takesGitCredentials: async () => false,
    prompt: async (session, messageId, content) =>
      void (await call(session, "prompt", { messageId, content })),
    stop: async (session) => void (await call(session, "stop", {})),
    end: async (session, why) => void (await call(session, "end", { why })),
  }
}
