/** The list above the field while the person types `/` or `@`. The field keeps the focus. */
import { Icon } from "../ui/icon.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import type { Suggestion } from "./suggest.ts"

export const Suggestions = ({
  items,
  chosen,
  onChoose,
}: {
  readonly items: readonly Suggestion[]
  readonly chosen: number
  readonly onChoose: (suggestion: Suggestion) => void
}) =>
  items.length === 0 ? null : (
    <div
      class="suggestions"
      role="listbox"
      aria-label={items[0]?.kind === "command" ? words.commands : words.files}
    >
      {items.map((item, index) => (
        <div
          key={item.text}
          role="option"
          aria-selected={index === chosen}
          class={`picker-row ${index === chosen ? "is-current" : ""}`}
          onPointerDown={(event) => {
            event.preventDefault()
            onChoose(item)
          }}
        >
          <Icon name={item.kind === "command" ? "command" : "file"} size={14} />
          <span class="picker-name">{visible(item.text)}</span>
          {item.about && <span class="fold-meta">{item.about}</span>}
        </div>
      ))}
    </div>
  )
