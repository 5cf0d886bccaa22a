/** Replaces the messages of a view: by a snapshot, or by a page of the history. */
import type { MessagePage, MessageWithParts, Snapshot } from "../../wire/clients/conversation.ts"
import { dropArrived } from "./outbox.ts"
import type { View } from "./view.ts"

/** A snapshot replaces everything but the link, the outbox and the results that have arrived. */
export const applySnapshot = (view: View, snapshot: Snapshot): View =>
  dropArrived({
    ...view,
    ...replaceMessages(view, snapshot),
    cursor: snapshot.rev,
    channel: snapshot.channel,
    channels: snapshot.channels,
    queue: snapshot.queue,
    interactions: snapshot.interactions,
    artifacts: snapshot.artifacts,
    usage: snapshot.usage,
    state: snapshot.state,
    gap: false,
  })

export const showAround = (view: View, page: MessagePage): View => ({
  ...view,
  ...replaceMessages(view, page),
})

export const addOlder = (view: View, page: MessagePage): View => ({
  ...view,
  ...merge(view, page.messages),
  before: page.before,
})

export const addNewer = (view: View, page: MessagePage): View => ({
  ...view,
  ...merge(view, page.messages),
  after: page.after,
})

type Messages = Pick<View, "messages" | "order">

const replaceMessages = (
  view: View,
  { messages, before, after }: MessagePage,
): Messages & Pick<View, "before" | "after"> => ({
  ...merge({ messages: new Map(), order: [] }, keepIdentity(view, messages)),
  before,
  after,
})

/** Messages that the view has already keep what it knows: it is newer than the page. */
const merge = (view: Messages, added: readonly MessageWithParts[]): Messages => {
  const messages = new Map(view.messages)
  for (const message of added) if (!messages.has(message.id)) messages.set(message.id, message)
  return { messages, order: sortedIds(messages) }
}

const sortedIds = (messages: ReadonlyMap<string, MessageWithParts>): readonly string[] =>
  [...messages.values()].toSorted((a, b) => a.place - b.place).map(({ id }) => id)

/** After a snapshot most messages are the same as before: they stay the same objects, so nothing renders again. */
const keepIdentity = (
  view: View,
  messages: readonly MessageWithParts[],
): readonly MessageWithParts[] =>
  messages.map((message) => {
    const known = view.messages.get(message.id)
    const isSame =
      known !== undefined &&
      message.status !== "streaming" &&
      JSON.stringify(known) === JSON.stringify(message)
    return isSame ? known : message
  })
