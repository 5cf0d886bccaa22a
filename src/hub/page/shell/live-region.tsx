/** What a screen reader hears: beginnings and ends, questions and failures; never the streamed words. */
import { useSignal, useSignalEffect } from "@preact/signals"
import { useRef } from "preact/hooks"
import { link } from "../client/slices.ts"
import { dock, isLoaded, isWorking, turns } from "../client/store.ts"
import { textOfMessage } from "../log/message-text.ts"
import { words } from "../words.ts"

const MAX_TEXT = 200
const LOST_MS = 5000

export const LiveRegion = () => {
  const polite = useSignal("")
  const assertive = useSignal("")
  const before = useRef({ working: false, asked: "" })
  useSignalEffect(() => {
    const working = isWorking.value
    const [open] = dock.value.interactions
    if (!isLoaded.value) return
    const known = before.current
    if (working && !known.working) polite.value = words.liveWorks
    if (!working && known.working) {
      const reply = turns.peek().at(-1)?.replies.at(-1)
      const text = reply ? textOfMessage(reply).slice(0, MAX_TEXT) : ""
      if (reply?.status === "error") assertive.value = words.liveFailed(reply.error ?? "")
      else polite.value = words.liveDone(text)
    }
    if (open && open.id !== known.asked)
      assertive.value =
        open.kind === "question"
          ? words.liveQuestion(open.text ?? "")
          : words.livePermission(open.title ?? "")
    before.current = { working, asked: open?.id ?? "" }
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
