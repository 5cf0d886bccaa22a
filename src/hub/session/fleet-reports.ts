/**
 * Reports to a control plane in another process what the session needs. The last report that it has stored is a row: a report
 * that failed is repeated by the alarm, also after a restart, and a system message says when the control plane stays unreachable.
 */
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import { backoffMs } from "../../lib/backoff.ts"
import type { Deadlines } from "./deadlines.ts"
import type { Messages } from "./messages.ts"
import type { NamedValues } from "./named-values.ts"
import type { Ports, SessionActivity } from "./ports.ts"

export interface FleetReports {
  /** Sends what has changed. Call after a commit and after a restart. */
  readonly send: (read: () => SessionActivity, commit: (work: () => void) => void) => void
  /** The deadline of a failed report has passed: the next `send` tries again. */
  readonly retry: () => void
}

const TOLD = "fleet-told"
const FAILURES = "fleet-failures"
const BACKOFF = { min: 500, max: 60_000 }
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
  deadlines: Deadlines,
): FleetReports => {
  const { tellFleet } = ports
  if (!tellFleet) return { send: () => {}, retry: () => {} }
  /** One report at a time: a later one must not arrive before it. */
  let isSending = false
  /** A report has failed; the alarm ends the wait. */
  let isWaiting = false

  const failed = (error: unknown) => {
    const failures = Number(values.getPrivate(FAILURES) ?? 0) + 1
    values.setPrivate(FAILURES, String(failures))
    ports.report("hub.fleet-report-failed", { failures, error: String(error) })
    deadlines.set("fleet", "", ports.now() + backoffMs(failures - 1, BACKOFF, ports.random()))
    if (failures !== FAILURES_BEFORE_NOTE) return
    messages.add(
      "system",
      {
        channel: MAIN_CHANNEL,
        content:
          "No sandbox can be started for this session at the moment: the fleet does not answer. The prompt is kept, and the fleet is asked again.",
      },
      { id: `fleet-away-${ports.newId()}` },
    )
  }

  const send: FleetReports["send"] = (read, commit) => {
    if (isSending || isWaiting) return
    const now = read()
    const text = JSON.stringify(now)
    const told = values.getPrivate(TOLD)
    if (told === text || (told === undefined && !isNeeded(now))) return
    isSending = true
    const finish = (work: () => void) => {
      isSending = false
      // What has changed meanwhile is sent by the commit.
      commit(work)
    }
    tellFleet(now)
      .then(
        () =>
          finish(() => {
            values.setPrivate(TOLD, text)
            values.setPrivate(FAILURES, "0")
            deadlines.clear("fleet", "")
          }),
        (error: unknown) => {
          isWaiting = true
          finish(() => failed(error))
        },
      )
      // The host was stopped meanwhile. Its next start sends the report again.
      .catch((error: unknown) => ports.report("hub.fleet-report-lost", { error: String(error) }))
  }

  return {
    send,
    retry: () => {
      isWaiting = false
    },
  }
}
