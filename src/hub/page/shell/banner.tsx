/** No connection: when the next attempt is, and what happens to prompts meanwhile. */
import { useEffect, useState } from "preact/hooks"
import { link as linkSignal } from "../client/slices.ts"
import { retryAt, retryNow } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"

/** A short cut is not worth a word. */
const SHOWN_AFTER_MS = 1000
const GONE_AFTER_MS = 60_000

export const Banner = () => {
  const link = linkSignal.value
  const [now, setNow] = useState(() => Date.now())
  const isClosed = link.state === "closed"
  useEffect(() => {
    if (!isClosed) return
    const timer = setInterval(() => setNow(Date.now()), 500)
    return () => clearInterval(timer)
  }, [isClosed])
  if (link.state !== "closed" || now - link.at < SHOWN_AFTER_MS) return null
  const seconds = Math.ceil(((retryAt.value ?? now) - now) / 1000)
  const isGone = now - link.at > GONE_AFTER_MS
  return (
    <div class="banner">
      <Icon name="plug" />
      <span class="grow">
        {isGone ? (
          <>
            {words.gone} <code>{words.goneCommand}</code>.
          </>
        ) : seconds > 0 ? (
          words.offline(seconds)
        ) : (
          words.offlineNow
        )}
      </span>
      <Button small onClick={retryNow}>
        {words.tryNow}
      </Button>
    </div>
  )
}
