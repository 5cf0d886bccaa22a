/** The reducer of a client's view: `step(view, action)` returns the next view. Pure. */
import type { Message, MessagePart, NumberedEvent } from "../../wire/clients/conversation.ts"
import { applyDelta } from "./deltas.ts"
import { addPending, countTries, dropArrived, forget, restore, settle } from "./outbox.ts"
import { addNewer, addOlder, applySnapshot, showAround } from "./snapshot.ts"
import type { Action, Answer, HubEvent, View } from "./view.ts"

export const step = (view: View, action: Action): View => {
  switch (action.type) {
    case "event":
      return onEvent(view, action.event)
    case "link": {
      const { link } = action
      return link.state === "open" ? countTries({ ...view, link }) : { ...view, link }
    }
    case "ask":
      return addPending(view, action)
    case "restore":
      return restore(view, action.pending)
    case "reply":
      return settle(view, action.clientRequestId, action.reply)
    case "forget":
      return forget(view, [action.clientRequestId])
    case "older":
      return addOlder(view, action.page)
    case "newer":
      return addNewer(view, action.page)
    case "around":
      return showAround(view, action.page)
  }
}

const onEvent = (view: View, event: HubEvent): View => {
  if (event.type === "snapshot") return applySnapshot(view, event)
  if (event.type !== "changes") return advance(onChange(view, event), event.rev)
  const changed = event.events.reduce((before, one) => onChange(before, one), view)
  return advance(changed, event.rev)
}

/** After a gap the cursor stays unset: the missed event may be older than any cursor, so only a snapshot repairs it. */
const advance = (view: View, rev: number): View =>
  view.gap ? view : { ...view, cursor: Math.max(view.cursor ?? 0, rev) }

const onChange = (view: View, event: NumberedEvent): View => {
  switch (event.type) {
    case "message":
      return onMessage(view, event.message)
    case "part":
      return changeParts(view, event.messageId, (parts) => putByPlace(parts, event.part))
    case "part.delta":
      return onDelta(view, event)
    case "part.removed":
      return changeParts(view, event.messageId, (parts) => without(parts, event.partId))
    case "removed":
      return removeMessage(view, event.messageId)
    case "queue":
      return dropArrived({ ...view, queue: event.queue })
    case "channel":
      return { ...view, channels: putByKey(view.channels, event.channel, ({ key }) => key) }
    case "interaction": {
      const { interaction } = event
      const interactions =
        interaction.status === "open"
          ? putByKey(view.interactions, interaction, ({ id }) => id)
          : without(view.interactions, interaction.id)
      return { ...view, interactions }
    }
    case "artifact":
      return { ...view, artifacts: putByKey(view.artifacts, event.artifact, ({ id }) => id) }
    case "usage":
      return { ...view, usage: event.usage }
    case "state": {
      const { [event.name]: _former, ...others } = view.state
      const { value } = event
      return { ...view, state: value === null ? others : { ...others, [event.name]: value } }
    }
    case "answer":
      return { ...view, answers: keepAnswer(view.answers, event) }
    default:
      // A newer hub may send events that this client does not know.
      return view
  }
}

const onMessage = (view: View, message: Message): View => {
  const known = view.messages.get(message.id)
  if (!known && !isInWindow(view, message)) return view
  // A message that has ended never streams again: the replay of a reconnect starts with its beginning.
  if (known && known.status !== "streaming" && message.status === "streaming") return view
  const messages = new Map(view.messages)
  messages.set(message.id, { ...message, parts: known?.parts ?? [] })
  const order = known ? view.order : insertId(view, message)
  const changed = { ...view, messages, order }
  return message.clientRequestId === undefined
    ? changed
    : forget(changed, [message.clientRequestId])
}

/** Only messages between the oldest and the newest one that were read; a change of any other one is not needed. */
const isInWindow = ({ channel, before, after }: View, message: Message): boolean =>
  (channel === undefined || message.channel === channel) &&
  (before === undefined || message.place >= before) &&
  (after === undefined || message.place <= after)

const insertId = ({ order, messages }: View, { id, place }: Message): readonly string[] => {
  const at = order.findLastIndex((other) => (messages.get(other)?.place ?? 0) < place) + 1
  return order.toSpliced(at, 0, id)
}

const onDelta = (view: View, event: Extract<NumberedEvent, { type: "part.delta" }>): View => {
  const message = view.messages.get(event.messageId)
  if (!message) return view
  const part = message.parts.find(({ id }) => id === event.partId)
  const grown = part && applyDelta(part, event.offset, event.text)
  if (!grown) return { ...view, gap: true, cursor: undefined }
  return grown === part
    ? view
    : changeParts(view, event.messageId, (parts) => putByPlace(parts, grown))
}

const changeParts = (
  view: View,
  messageId: string,
  change: (parts: readonly MessagePart[]) => MessagePart[],
): View => {
  const message = view.messages.get(messageId)
  if (!message) return view
  const messages = new Map(view.messages)
  messages.set(messageId, { ...message, parts: change(message.parts) })
  return { ...view, messages }
}

const putByPlace = (parts: readonly MessagePart[], part: MessagePart): MessagePart[] => {
  const known = parts.findIndex(({ id }) => id === part.id)
  if (known !== -1 && parts[known]?.place === part.place) return parts.with(known, part)
  const others = without(parts, part.id)
  const at = others.findLastIndex(({ place }) => place < part.place) + 1
  return others.toSpliced(at, 0, part)
}

const without = <Item extends { readonly id: string }>(items: readonly Item[], id: string) =>
  items.filter((item) => item.id !== id)

const putByKey = <Item>(
  items: readonly Item[],
  item: Item,
  keyOf: (item: Item) => string,
): readonly Item[] => {
  const known = items.findIndex((other) => keyOf(other) === keyOf(item))
  return known === -1 ? [...items, item] : items.with(known, item)
}

const removeMessage = (view: View, id: string): View => {
  if (!view.messages.has(id)) return view
  const messages = new Map(view.messages)
  messages.delete(id)
  return { ...view, messages, order: view.order.filter((other) => other !== id) }
}

/** A diff may have megabytes: older results are dropped. */
const MAX_ANSWERS = 20

const keepAnswer = (
  answers: View["answers"],
  { type: _type, rev: _rev, ...answer }: Extract<NumberedEvent, { type: "answer" }>,
): ReadonlyMap<string, Answer> =>
  new Map([...answers, [answer.requestId, answer] as const].slice(-MAX_ANSWERS))
