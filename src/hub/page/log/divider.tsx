/** The agent's context was compacted here: it knows a summary of what stands above. */
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"

export const Divider = () => (
  <div class="divider" data-anchor>
    <span>
      <Icon name="compact" size={13} />
      {words.compacted}
    </span>
  </div>
)
