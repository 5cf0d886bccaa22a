/** How full the context is, and what the session has cost. */
import { usage } from "../client/slices.ts"
import { channel, state } from "../client/store.ts"
import { dollars } from "../ui/clock.ts"
import { words } from "../words.ts"

const RADIUS = 6
const LENGTH = 2 * Math.PI * RADIUS

export const Meter = () => {
  const context = state.value[`context:${channel.value}`] as
    | { readonly used?: number; readonly limit?: number }
    | undefined
  const { cost } = usage.value
  const hasContext = context?.used !== undefined && context.limit !== undefined && context.limit > 0
  const share = hasContext ? Math.min(1, (context.used ?? 0) / (context.limit ?? 1)) : undefined
  if (share === undefined && cost === 0) return null
  const percent = share === undefined ? undefined : Math.round(share * 100)
  return (
    <span
      class="meter"
      role="img"
      aria-label={words.usage(percent, dollars(cost))}
      title={words.usage(percent, dollars(cost))}
    >
      {share !== undefined && (
        <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
          <circle class="meter-ring" cx="8" cy="8" r={RADIUS} />
          <circle
            class="meter-arc"
            cx="8"
            cy="8"
            r={RADIUS}
            stroke-dasharray={`${share * LENGTH} ${LENGTH}`}
            transform="rotate(-90 8 8)"
          />
        </svg>
      )}
      {percent !== undefined && <span class="not-phone">{percent}%</span>}
      {cost > 0 && <span class="meter-cost not-phone">{dollars(cost)}</span>}
    </span>
  )
}
