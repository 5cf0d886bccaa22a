/** Calls the gateway of the sandbox that this command runs in. A gateway that is still starting is waited for. */
import { z } from "zod"
import { type Clock, sleep, systemClock } from "../lib/clock.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { errorCode } from "../lib/error-code.ts"

export interface GatewayClient {
  /** The parsed JSON body. Throws an Error with the gateway's sentence if the call is refused. */
  readonly call: <Schema extends z.ZodType>(
    schema: Schema,
    method: string,
    path: string,
    body?: object,
  ) => Promise<z.output<Schema>>
  /** The response itself, for streams. */
  readonly open: (
    method: string,
    path: string,
    body?: object | Blob,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Response>
}

const RETRY_MS = 10_000
const PAUSE_MS = 200

/** The API says `error`, the routes of files and processes say `detail`. */
const refused = z.union([
  z.object({ error: z.string() }),
  z.object({ detail: z.string() }).transform(({ detail }) => ({ error: detail })),
])

/**
 * SANDPIPER_URL and SANDPIPER_API_TOKEN are in the environment of the agent's shell. Outside a sandbox,
 * SANDPIPER_CONTROL_TOKEN is the key.
 */
export const gatewayClient = (
  { environment, gatewayPort }: Pick<Settings, "environment" | "gatewayPort">,
  clock: Clock = systemClock,
): GatewayClient => {
  const url = environment["SANDPIPER_URL"] ?? `http://127.0.0.1:${gatewayPort}`
  const token = environment["SANDPIPER_CONTROL_TOKEN"] ?? environment["SANDPIPER_API_TOKEN"]
  if (token === undefined) {
    throw new SettingsError(
      "SANDPIPER_API_TOKEN is not set: run this command in the sandbox, in the agent's shell",
    )
  }
  const request: GatewayClient["open"] = async (method, path, body, headers = {}) => {
    const until = clock.now() + RETRY_MS
    for (;;) {
      try {
        return await fetch(`${url}${path}`, {
          method,
          headers: {
            ...headers,
            authorization: `Bearer ${token}`,
            ...(body && !(body instanceof Blob) && { "content-type": "application/json" }),
          },
          ...(body && { body: body instanceof Blob ? body : JSON.stringify(body) }),
        })
      } catch (cause) {
        // A connection that is cut later may have carried the request: repeating it could do the work twice.
        if (!isConnectionRefused(cause)) {
          throw new Error(`the connection to the runner at ${url} was lost`, { cause })
        }
        if (clock.now() >= until) {
          throw new Error(`no runner responds at ${url}: is \`sandpiper run\` running?`, { cause })
        }
        await sleep(clock, PAUSE_MS)
      }
    }
  }
  const open: GatewayClient["open"] = async (method, path, body, headers) => {
    const response = await request(method, path, body, headers)
    if (response.ok) return response
    const text = await response.text()
    throw new Error(sentenceOf(text) ?? `the runner responded with HTTP ${response.status}`)
  }
  return {
    open,
    call: async (schema, method, path, body) => {
      const response = await open(method, path, body)
      return schema.parse(await response.json())
    },
  }
}

/** The names that Bun gives to a connection that was never opened. */
const REFUSED_CODES = new Set(["ECONNREFUSED", "ConnectionRefused", "FailedToOpenSocket"])

const isConnectionRefused = (error: unknown): boolean => REFUSED_CODES.has(errorCode(error) ?? "")

const sentenceOf = (text: string): string | undefined => {
  try {
    return refused.parse(JSON.parse(text)).error
  } catch {
    return undefined
  }
}
