/**
 * The client of the gateway for commands that run in the sandbox. The address and the key come from the environment: the
 * agent's tools have them there; from outside, a control token is the key.
 */
import { z } from "zod"
import { type Clock, sleep } from "../lib/clock.ts"
import { SettingsError } from "../settings/settings-error.ts"

export interface GatewayCall {
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly json?: unknown
  readonly body?: Blob
}

export interface GatewayClient {
  /** Throws with the gateway's own words if the response is an error. */
  readonly call: (method: string, path: string, call?: GatewayCall) => Promise<Response>
}

/** The gateway may be restarting: a refused connection is tried again for this long. */
const RETRY_MS = 10_000
const PAUSE_MS = 250

/** Both shapes of errors: the API's and that of problem details. */
const errorBody = z.object({ error: z.string().optional(), detail: z.string().optional() })

export const createGatewayClient = (
  environment: Readonly<Record<string, string | undefined>>,
  clock: Clock,
): GatewayClient => {
  const url = environment["SANDPIPER_URL"]
  const token = environment["SANDPIPER_CONTROL_TOKEN"] ?? environment["SANDPIPER_API_TOKEN"]
  if (!url || !token) {
    throw new SettingsError(
      "SANDPIPER_URL and SANDPIPER_API_TOKEN are not set: run this in a sandbox, or set SANDPIPER_URL and SANDPIPER_CONTROL_TOKEN",
    )
  }
  const send = async (method: string, address: string, call: GatewayCall): Promise<Response> => {
    const until = clock.now() + RETRY_MS
    for (;;) {
      try {
        return await fetch(address, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            ...(call.json !== undefined && { "content-type": "application/json" }),
          },
          ...(call.json !== undefined && { body: JSON.stringify(call.json) }),
          ...(call.body && { body: call.body }),
          // A proxy of the machine must not see the key.
          proxy: "",
        })
      } catch (error) {
        if (!isRefused(error) || clock.now() >= until) {
          throw new Error(`the gateway at ${url} cannot be reached`, { cause: error })
        }
        await sleep(clock, PAUSE_MS)
      }
    }
  }
  return {
    call: async (method, path, call = {}) => {
      const address = new URL(path, url)
      for (const [name, value] of Object.entries(call.query ?? {})) {
        if (value !== undefined) address.searchParams.set(name, value)
      }
      const response = await send(method, address.href, call)
      if (response.ok) return response
      const { error, detail } =
        errorBody.safeParse(await response.json().catch(() => ({}))).data ?? {}
      throw new Error(detail ?? error ?? `the gateway answered with HTTP ${response.status}`)
    },
  }
}

const isRefused = (error: unknown): boolean =>
  error instanceof Error &&
  "code" in error &&
  (error.code === "ConnectionRefused" || error.code === "ECONNREFUSED")
