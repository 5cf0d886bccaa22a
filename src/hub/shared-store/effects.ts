/** Work that a transaction of the shared store requests, for a session or for a service outside: the deliveries of the store. */
import { z } from "zod"
import { workflowExecute } from "../../wire/frames/inbound.ts"
import {
  createDeliveries,
  type Deliveries,
  type DeliveryKinds,
  type RetryLimits,
} from "../session/deliveries.ts"
import { createDeliveryRows } from "../session/delivery-rows.ts"
import { type Sql, workflowApproval } from "../session/ports.ts"
import { notification } from "./rows.ts"

const session = z.string()
const payloads = {
  order: z.object({ do: z.literal("order"), session, frame: workflowExecute.schema }),
  cancel: z.object({ do: z.literal("cancel"), session, executionId: z.string() }),
  prompt: z.object({
    do: z.literal("prompt"),
    session,
    content: z.string(),
    authorName: z.string().optional(),
  }),
  /** A notification for a session, a user or a handle, shown to the clients of the session. */
  notify: z.object({ do: z.literal("notify"), session, notification }),
  /** A change of a pull request that the git host did not answer (git-retries.ts). */
  git: z.object({
    do: z.literal("git"),
    session,
    requestId: z.string(),
    change: z.object({
      type: z.enum(["create-pr", "update-pr"]),
      fields: z.record(z.string(), z.unknown()),
    }),
  }),
  /** A system message in the conversation, and the approval that it asks people for. */
  note: z.object({
    do: z.literal("note"),
    session,
    content: z.string(),
    approval: workflowApproval.optional(),
  }),
}

type EffectKind = keyof typeof payloads
type EffectPayloads = { readonly [Kind in EffectKind]: z.output<(typeof payloads)[Kind]> }
export type Effect = { [Kind in EffectKind]: Omit<EffectPayloads[Kind], "session"> }[EffectKind]

export interface Effects extends Deliveries {
  /** Call inside the transaction that causes the effect. The default lane is the session. */
  readonly add: (id: string, session: string, effect: Effect, lane?: string) => void
}

/** How each kind is delivered. A rejection is a failed attempt. */
export type EffectSenders = {
  readonly [Kind in EffectKind]: (
    session: string,
    id: string,
    effect: EffectPayloads[Kind],
  ) => void | Promise<void>
}

export interface EffectsOptions {
  readonly sql: Sql
  readonly now: () => number
  readonly senders: EffectSenders
  readonly commit: (work: () => void) => void
  /** An order was given up and its row is deleted. Inside the transaction that deletes it. */
  readonly orderFailed: (executionId: string, reason: string) => void
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

/** About 40 minutes in all: longer than most outages of a service, short enough that a person still waits for the result. */
export const EFFECT_LIMITS: RetryLimits = {
  backoff: { min: 2000, max: 600_000 },
  maxAttempts: 12,
}

const whatIs: Readonly<Record<EffectKind, string>> = {
  order: "starting a workflow",
  cancel: "cancelling a workflow",
  prompt: "a prompt of a trigger or a session",
  notify: "a notification",
  git: "changing a pull request",
  note: "a note",
}

export const createEffects = (options: EffectsOptions): Effects => {
  const { sql, now, senders, orderFailed, report } = options
  const rows = createDeliveryRows<EffectPayloads>({ sql, now })
  const add: Effects["add"] = (id, to, effect, lane = to) =>
    rows.add<EffectKind>(effect.do, { id, lane, payload: { ...effect, session: to } })
  const noteFailure = (id: string, to: string, what: string, reason: string) =>
    add(`${id}/failed`, to, {
      do: "note",
      content: `${what} failed and is not tried again: ${reason}`,
    })
  const kindOf = <Kind extends EffectKind>(
    name: Kind,
    payload: z.ZodType<EffectPayloads[Kind]>,
  ) => ({
    ...EFFECT_LIMITS,
    payload,
    send: ({ id, payload: effect }: { id: string; payload: EffectPayloads[Kind] }) =>
      senders[name](effect.session, id, effect),
    givenUp: (
      { id, payload: effect }: { id: string; payload: EffectPayloads[EffectKind] },
      reason: string,
    ) => {
      if (effect.do === "order") orderFailed(effect.frame.executionId, reason)
      // A note that cannot be delivered ends with the log line alone.
      if (effect.do !== "note") noteFailure(id, effect.session, whatIs[effect.do], reason)
    },
  })
  const kinds: DeliveryKinds<EffectPayloads> = {
    order: kindOf("order", payloads.order),
    cancel: kindOf("cancel", payloads.cancel),
    prompt: kindOf("prompt", payloads.prompt),
    notify: kindOf("notify", payloads.notify),
    git: kindOf("git", payloads.git),
    note: kindOf("note", payloads.note),
  }
  const deliveries = createDeliveries<EffectPayloads>({
    rows,
    kinds,
    now,
    random: Math.random,
    commit: options.commit,
    // The lane of a session's effects begins with the session.
    unreadable: (lane, id) =>
      noteFailure(id, lane.replace(/^git:/, ""), "a stored effect", "it cannot be read"),
    report,
  })
  return { ...deliveries, add }
}
