/** Something loads: nothing for a moment, then quiet bars. */
import { useEffect, useState } from "preact/hooks"
import { words } from "../words.ts"

const QUIET_MS = 150

export const QuietBars = () => {
  const [isShown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), QUIET_MS)
    return () => clearTimeout(timer)
  }, [])
  if (!isShown) return null
  return (
    <div class="skeleton" role="status" aria-label={words.loading}>
      <span />
      <span />
      <span />
    </div>
  )
}
