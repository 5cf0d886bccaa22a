/** What a screen reader hears: one polite region and one for what cannot wait. */
import { computed, useSignal, useSignalEffect } from "@preact/signals"
import { useRef } from "preact/hooks"
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import { toolOf, toolWords } from "../../view/tool-words.ts"
import { link } from "../client/slices.ts"
import { dock, isLoaded, isWorking, turns } from "../client/store.ts"
import { textOfMessage } from "../log/message-text.ts"
import { words } from "../words.ts"
import { initialLive, stepLive } from "./live-words.ts"

const LOST_MS = 5000

const lastReply = computed(() => turns.value.at(-1)?.replies.at(-1))

/** The last tool of a reply that failed: an error, or a command that ended with another code than 0. */
const failedTool = (reply: MessageWithParts | undefined) => {
  const tool = reply?.parts
    .map(toolOf)
    .findLast(
      (one) =>
        (one?.status === "error" && one.error !== "canceled") ||
        (one?.exit !== undefined && one.exit !== 0),
    )
  if (!tool) return undefined
  const { verb, subject } = toolWords(tool)
  return { id: tool.callId, subject: `${verb} ${subject.split("\n", 1)[0] ?? ""}` }
}

export const LiveRegion = () => {
  const polite = useSignal("")
  const assertive = useSignal("")
  const state = useRef(initialLive)
  useSignalEffect(() => {
    const [open] = dock.value.interactions
    const reply = lastReply.value
    const working = isWorking.value
    if (!isLoaded.value) return
    const [next, said] = stepLive(state.current, {
      now: Date.now(),
      isWorking: working,
      isThinking: dock.value.status?.sentence === words.thinking,
      failed: working ? failedTool(reply) : undefined,
      asked: open && { id: open.id, kind: open.kind, text: open.text ?? open.title ?? "" },
      reply: reply && { text: textOfMessage(reply), error: errorOf(reply) },
    })
    state.current = next
    if (said.polite !== undefined) polite.value = said.polite
    if (said.assertive !== undefined) assertive.value = said.assertive
  })
  useSignalEffect(() => {
    if (link.value.state !== "closed") return
    const timer = setTimeout(() => {
      assertive.value = words.liveOffline
    }, LOST_MS)
    return () => clearTimeout(timer)
  })
  return (
    <>
      <div class="unseen" role="status" aria-live="polite">
        {polite.value}
      </div>
      <div class="unseen" role="alert" aria-live="assertive">
        {assertive.value}
      </div>
    </>
  )
}

const errorOf = ({ status, error = "" }: MessageWithParts): string | undefined =>
  status === "error" ? error : undefined
