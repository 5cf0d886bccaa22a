/** How long something takes: it counts while it runs, once a second and only while it is on the screen. */
import { useEffect, useState } from "preact/hooks"
import { duration, stopwatch } from "../ui/clock.ts"

const SECOND_MS = 1000
/** Shorter work shows no time while it runs. */
const SHOWN_FROM_MS = 2000

export const Elapsed = ({
  since,
  until,
  as = "words",
}: {
  readonly since: number | undefined
  readonly until?: number | undefined
  readonly as?: "words" | "stopwatch"
}) => {
  const [now, setNow] = useState(() => Date.now())
  const runs = since !== undefined && until === undefined
  useEffect(() => {
    if (!runs) return
    const timer = setInterval(() => setNow(Date.now()), SECOND_MS)
    return () => clearInterval(timer)
  }, [runs])
  if (since === undefined) return null
  const ms = Math.max(0, (until ?? now) - since)
  if (as === "stopwatch") return <span>{stopwatch(ms)}</span>
  if (until === undefined && ms < SHOWN_FROM_MS) return null
  return <span>{until === undefined ? `${Math.floor(ms / SECOND_MS)} s` : duration(ms)}</span>
}
