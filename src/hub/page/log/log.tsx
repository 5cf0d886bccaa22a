/** The conversation: a window over its turns, in normal flow, with a spacer above and below. */
import { useSignalEffect } from "@preact/signals"
import { useEffect, useRef } from "preact/hooks"
import {
  channel,
  isLoaded,
  loadOlder,
  pending,
  session,
  showMessage,
  showNewest,
  turns,
  view,
} from "../client/store.ts"
import { route } from "../client/navigation.ts"
import { scrollTo } from "../client/scroll-request.ts"
import { isMarkdownLoaded } from "../parts/lazy-markdown.tsx"
import { Icon } from "../ui/icon.tsx"
import { QuietBars } from "../ui/quiet-bars.tsx"
import { words } from "../words.ts"
import { Greeting } from "./greeting.tsx"
import { SwitchNotice } from "./notices.tsx"
import { PendingPrompt } from "./prompt.tsx"
import { TurnView } from "./turn.tsx"
import { useScroll } from "./use-scroll.ts"

export const Log = () => {
  const scroller = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const all = turns.value
  const unsent = pending.value
  const isReady = isLoaded.value && (all.length === 0 || isMarkdownLoaded.value)
  const ids = isReady ? all.map(({ id }) => id) : []
  const { range, isAway, hasNew, toEnd, toTurn } = useScroll({
    scroller,
    content,
    ids,
    conversation: `${session.value}/${channel.value}`,
    version: view.value.messages,
    onNearTop: () => void loadOlder(),
  })

  useSignalEffect(() => {
    const wanted = scrollTo.value
    if (wanted === undefined) return
    scrollTo.value = undefined
    if (wanted.to === "end") return toEnd()
    if (wanted.to === "turn") return toTurn(wanted.id)
    movePrompt(
      scroller.current,
      wanted.by,
      all.map(({ id }) => id),
      toTurn,
    )
  })

  const target = route.value.message
  useEffect(() => {
    if (target === undefined || !isLoaded.value) return
    const show = async () => {
      const found = await showMessage(target)
      const turn = turns.value.find(
        ({ prompt, replies }) => prompt?.id === target || replies.some(({ id }) => id === target),
      )
      if (found && turn) toTurn(turn.id)
    }
    void show()
  }, [target, isLoaded.value])

  // The last prompt was just sent: the person wants to see what follows.
  const sent = unsent.length
  useEffect(() => {
    if (sent > 0) toEnd()
  }, [sent])

  const isEmpty = all.length === 0 && unsent.length === 0
  return (
    <>
      <div
        class="log"
        ref={scroller}
        role="log"
        aria-live="off"
        aria-label={words.conversation}
        tabIndex={0}
        id="log"
      >
        <div class="column" ref={content}>
          {!isReady ? (
            <>
              <QuietBars />
              {unsent.map((one) => (
                <PendingPrompt key={one.clientRequestId} pending={one} />
              ))}
            </>
          ) : isEmpty ? (
            <Greeting />
          ) : (
            <>
              <div class="spacer" style={{ height: `${range.above}px` }} />
              {all.slice(range.from, range.to).map((turn, index) => (
                <div class="turn" key={turn.id} data-turn={turn.id}>
                  <TurnView turn={turn} isLast={range.from + index === all.length - 1} />
                </div>
              ))}
              <div class="spacer" style={{ height: `${range.below}px` }} />
              {unsent.map((one) => (
                <PendingPrompt key={one.clientRequestId} pending={one} />
              ))}
              <SwitchNotice />
            </>
          )}
        </div>
      </div>
      {(isAway || view.value.after !== undefined) && !isEmpty && (
        <div class="newest-place">
          <button
            type="button"
            class={`newest ${hasNew ? "has-new" : ""}`}
            onClick={() => {
              showNewest()
              toEnd()
            }}
          >
            <Icon name="down" size={14} />
            {words.newest}
          </button>
        </div>
      )}
    </>
  )
}

/** To the prompt before or after the first one in view. */
const movePrompt = (
  scroller: HTMLElement | null,
  by: 1 | -1,
  ids: readonly string[],
  toTurn: (id: string) => void,
): void => {
  if (!scroller) return
  const top = scroller.getBoundingClientRect().top
  const inView = [...scroller.querySelectorAll<HTMLElement>("[data-turn]")].find(
    (turn) => turn.getBoundingClientRect().bottom > top + 8,
  )
  const at = ids.indexOf(inView?.dataset["turn"] ?? "")
  const isAtStart = inView !== undefined && inView.getBoundingClientRect().top < top - 8
  const next = ids[by === -1 && isAtStart ? at : at + by]
  if (next !== undefined) toTurn(next)
}
