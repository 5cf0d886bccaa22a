/** What the control plane needs to know of a session, read from its tables. */
import { z } from "zod"
import { readJson } from "../../lib/json.ts"
import { readCounts } from "./counts.ts"
import { hasEnded, type NamedValues, readGeneration } from "./named-values.ts"
import { type SandboxWish, sandboxWish, type SessionActivity } from "./ports.ts"
import { countRow, readRow } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

/** The private value with the time of the last use by people. */
export const USED_AT = "used-at"

export const readWish = (values: NamedValues): SandboxWish | undefined => {
  const text = values.getPrivate("wish")
  return text === undefined ? undefined : readJson(sandboxWish, text)
}

export const readActivity = ({
  ports,
  values,
  queue,
  runnerConnection,
  childReports,
}: Pick<
  SessionContext,
  "ports" | "values" | "queue" | "runnerConnection" | "childReports"
>): SessionActivity => {
  const orders = readRow(ports.sql, countRow, "SELECT count(*) AS count FROM orders")?.count ?? 0
  const parent = childReports.parent()
  const wish = readWish(values)
  const usedAt = values.getPrivate(USED_AT)
  return {
    generation: readGeneration(values),
    connected: runnerConnection.state().connection !== null,
    working: queue.processing().length + orders,
    queued: queue.countQueued(),
    ...(usedAt !== undefined && { usedAt: Number(usedAt) }),
    hasEnded: hasEnded(values),
    hasOtherRunner: values.getPrivate("runner-of") === "other",
    counts: readCounts(values),
    ...(parent !== undefined && { parent }),
    ...(wish && { wish }),
  }
}

const workStatus = z.object({ status: z.string(), detail: z.string().optional() })

/** The status of a running prompt that is at work, as the runner has reported it for its channel. */
export const readWorkStatus = ({
  values,
  queue,
}: Pick<SessionContext, "values" | "queue">): z.output<typeof workStatus> | undefined =>
  queue
    .processing()
    .map(({ channel }) => workStatus.safeParse(values.getPublic(`agent:${channel}`)).data)
    .find((known) => known !== undefined && known.status !== "idle")
