/**
 * Reports to a control plane in another process what the session needs. The last report that it has stored is a named value: a
 * session that differs from it has a delivery, which reads the present state when it is sent.
 */
import { z } from "zod"
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import type { DeliveryKind } from "./deliveries.ts"
import type { DeliveryRows } from "./delivery-rows.ts"
import type { SessionDeliveries } from "./delivery-kinds.ts"
import type { Messages } from "./messages.ts"
import type { NamedValues } from "./named-values.ts"
import type { Ports, SessionActivity } from "./ports.ts"

export interface FleetReports {
  /** Stores a delivery if the fleet does not know the present state. Call at the end of each transaction. */
  readonly check: () => void
  /** Undefined without a fleet in another process. */
  readonly kind: DeliveryKind<FleetReport> | undefined
}

const fleetReport = z.object({})
export type FleetReport = z.output<typeof fleetReport>

const TOLD = "fleet-told"
/** After this many failures the conversation gets a note; with the backoff that is about a quarter of a minute. */
const FAILURES_BEFORE_NOTE = 5

/** Work needs a sandbox, and a runner that the control plane has started is always reported. */
const isNeeded = ({
  generation,
  working,
  queued,
  hasEnded,
  hasOtherRunner,
}: SessionActivity): boolean =>
  !hasOtherRunner && (generation > 0 || (!hasEnded && working + queued > 0))

export const createFleetReports = (
  ports: Ports,
  values: NamedValues,
  messages: Messages,
  deliveries: DeliveryRows<SessionDeliveries>,
  read: () => SessionActivity,
): FleetReports => {
  const { tellFleet } = ports
  if (!tellFleet) return { check: () => {}, kind: undefined }
  /** What the last call has said. */
  let said = ""
  return {
    check: () => {
      const now = read()
      const told = values.getPrivate(TOLD)
      if (told === JSON.stringify(now) || (told === undefined && !isNeeded(now))) return
      deliveries.add("fleet-report", { id: "fleet", lane: "fleet", payload: {} })
    },
    kind: {
      payload: fleetReport,
      backoff: { min: 500, max: 60_000 },
      // The fleet must know it, however long it is away.
      maxAttempts: Infinity,
      triesAtStart: true,
      send: async () => {
        const now = read()
        said = JSON.stringify(now)
        await tellFleet(now)
      },
      delivered: () => values.setPrivate(TOLD, said),
      failed: ({ attempts }) => {
        if (attempts !== FAILURES_BEFORE_NOTE) return
        messages.add(
          "system",
          {
            channel: MAIN_CHANNEL,
            content:
              "No sandbox can be started for this session at the moment: the fleet does not answer. The prompt is kept, and the fleet is asked again.",
          },
          { id: `fleet-away-${ports.newId()}` },
        )
      },
    },
  }
}
