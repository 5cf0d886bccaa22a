/** HTTP calls with signed URLs. A failed call is retried; errors never contain a URL, because it is a key. */
import { backoffMs } from "../../../lib/backoff.ts"
import { type Clock, sleep } from "../../../lib/clock.ts"
import { readStart } from "../../../lib/read-limited.ts"

export class StorageError extends Error {
  override readonly name = "StorageError"
  /** Undefined when there was no response. */
  readonly status: number | undefined
  constructor(message: string, status: number | undefined) {
    super(message)
    this.status = status
  }
}

type Body = NonNullable<RequestInit["body"]>

export interface ObjectCalls {
  readonly get: (url: string) => Promise<Response>
  /** `body` is made anew for each try. */
  readonly put: (url: string, bytes: number, body: () => Promise<Body>) => Promise<void>
  readonly remove: (url: string) => Promise<void>
}

const TRIES = 3
const PAUSE = { min: 200, max: 2000 }
const CALL_MS = 120_000
const MOST_ERROR = 16 * 1024

export const createObjectCalls = (clock: Clock): ObjectCalls => {
  const once = async (url: string, init: RequestInit): Promise<Response> => {
    let response: Response
    try {
      response = await fetch(url, {
        ...init,
        redirect: "error",
        signal: AbortSignal.timeout(CALL_MS),
      })
    } catch {
      throw new StorageError("the object storage cannot be reached", undefined)
    }
    if (response.ok) return response
    const start = await readStart(response, MOST_ERROR).catch(() => undefined)
    const code = /<Code>(\w{1,60})<\/Code>/.exec(new TextDecoder().decode(start?.bytes))?.[1]
    const why = code === undefined ? "" : ` (${code})`
    throw new StorageError(`the object storage answered ${response.status}${why}`, response.status)
  }
  const call = async (url: string, init: () => Promise<RequestInit>): Promise<Response> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await once(url, await init())
      } catch (error) {
        const isFinal =
          !(error instanceof StorageError) ||
          (error.status !== undefined && error.status < 500 && error.status !== 429)
        if (isFinal || attempt >= TRIES) throw error
        await sleep(clock, backoffMs(attempt, PAUSE, Math.random()))
      }
    }
  }
  return {
    get: (url) => call(url, async () => ({})),
    put: async (url, bytes, body) => {
      await call(url, async () => ({
        method: "PUT",
        body: await body(),
        headers: { "content-length": String(bytes) },
      }))
    },
    remove: async (url) => {
      await call(url, async () => ({ method: "DELETE" }))
    },
  }
}
