/**
 * Requests that wait for their reply. A prompt leaves the outbox when an event bears its `clientRequestId` or the hub
 * accepts it, whichever comes first: the hub sends the events before the reply.
 */
import type { Reply } from "../../wire/clients/verbs.ts"
import type { Action, Pending, View } from "./view.ts"

export const addPending = (
  view: View,
  { clientRequestId, message, at }: Extract<Action, { type: "ask" }>,
): View => {
  const isOpen = view.link.state === "open"
  const pending: Pending = { clientRequestId, message, at, tries: isOpen ? 1 : 0 }
  const others = view.outbox.filter((other) => other.clientRequestId !== clientRequestId)
  return { ...view, outbox: [...others, pending] }
}

/** Adds requests of an earlier page in the order in which the person sent them, except those that have arrived since. */
export const restore = (view: View, stored: readonly Pending[]): View => {
  const known = new Set(view.outbox.map(({ clientRequestId }) => clientRequestId))
  const added = stored.filter(({ clientRequestId }) => !known.has(clientRequestId))
  if (added.length === 0) return view
  const outbox = [...added, ...view.outbox].toSorted((a, b) => a.at - b.at)
  return dropArrived({ ...view, outbox })
}

/** What to send on a new connection, in order. */
export const unanswered = (view: View): readonly Pending[] =>
  view.outbox.filter(({ error }) => error === undefined)

export const countTries = (view: View): View =>
  unanswered(view).length === 0
    ? view
    : {
        ...view,
        outbox: view.outbox.map((pending) =>
          pending.error ? pending : { ...pending, tries: pending.tries + 1 },
        ),
      }

export const settle = (view: View, clientRequestId: string, reply: Reply): View => {
  if (reply.ok) return forget(view, [clientRequestId])
  const { code, message } = reply.error
  return {
    ...view,
    outbox: view.outbox.map((pending) =>
      pending.clientRequestId === clientRequestId
        ? { ...pending, error: { code, message } }
        : pending,
    ),
  }
}

export const forget = (view: View, ids: readonly (string | undefined)[]): View => {
  const outbox = view.outbox.filter(({ clientRequestId }) => !ids.includes(clientRequestId))
  return outbox.length === view.outbox.length ? view : { ...view, outbox }
}

/** Drops the prompts that the messages or the queue of the view hold. */
export const dropArrived = (view: View): View => {
  if (view.outbox.length === 0) return view
  const arrived = [...view.messages.values(), ...view.queue].flatMap(
    ({ clientRequestId }) => clientRequestId ?? [],
  )
  return forget(view, arrived)
}
