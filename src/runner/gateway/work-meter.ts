/**
 * Decides whether people work in the sandbox through the gateway. An open tab is not work: an editor and a screen send
 * keep-alives and small updates without a person. Pure.
 */
import { SAFE_METHODS } from "./forward.ts"
import { isPage } from "./http/request-info.ts"
import type { RouteName } from "./routes.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

type Served = Pick<HttpExchange, "head" | "route" | "isTrusted" | "messageBytes">

export interface WorkMeter {
  /** A request is over, or a WebSocket was closed. */
  readonly ended: (exchange: Served) => void
  /** Whether there was work since the last call. `open`: what the gateway serves now. To be called every half minute. */
  readonly sample: (open: readonly Served[]) => boolean
}

/**
 * What a person at least sends over a WebSocket in half a minute. An idle tab of VS Code sends up to 4,400 bytes in that time,
 * and slow typing 100,000. A screen with a blinking cursor is asked for again twice a second, with 16 bytes.
 */
const LEAST_BYTES: ReadonlyMap<string, number> = new Map<RouteName, number>([
  ["vscode", 8192],
  ["vnc", 1500],
  ["ttyd", 1],
  ["terminal", 1],
  ["api-terminal", 1],
  ["tunnel", 1500],
  ["tunnel-host", 1500],
])

export const createWorkMeter = (): WorkMeter => {
  /** The bytes of each WebSocket at the last sample. */
  const counted = new WeakMap<Served, number>()
  let worked = false

  const hasSentEnough = (exchange: Served): boolean => {
    const least = exchange.isTrusted ? LEAST_BYTES.get(exchange.route) : undefined
    return least !== undefined && exchange.messageBytes() - (counted.get(exchange) ?? 0) >= least
  }
  /** An app that asks for data again and again is not a person. A page that is opened is, and a change. */
  const isWork = ({ head, route, isTrusted }: Served): boolean =>
    isTrusted && LEAST_BYTES.has(route) && (isPage(head) || !SAFE_METHODS.has(head.method))

  return {
    ended: (exchange) => {
      worked ||= isWork(exchange) || hasSentEnough(exchange)
    },
    sample: (open) => {
      const result = worked || open.some(hasSentEnough)
      worked = false
      for (const exchange of open) counted.set(exchange, exchange.messageBytes())
      return result
    },
  }
}
