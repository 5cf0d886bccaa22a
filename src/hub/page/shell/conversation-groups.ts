/** The conversations of every session, by day, as the side and the search show them. */
import { computed } from "@preact/signals"
import { type ListedSession, sidebarGroups } from "../../view/sidebar-rows.ts"
import { channels, stateOf } from "../client/slices.ts"
import { seenRev, session, sessions } from "../client/store.ts"

const sessionTitle = stateOf("title")

/** The open session is known better from its own events than from the list. */
const listed = computed((): readonly ListedSession[] => {
  const others = sessions.value ?? []
  const title = sessionTitle.value
  return others.map((one) =>
    one.id === session.value && channels.value.length > 0
      ? { ...one, channels: channels.value, ...(typeof title === "string" && { title }) }
      : one,
  )
})

const midnight = (): number => new Date().setHours(0, 0, 0, 0)

export const conversationGroups = computed(() =>
  sidebarGroups({
    sessions: listed.value,
    seen: seenRev,
    today: midnight(),
  }),
)
