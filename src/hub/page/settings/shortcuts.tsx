/** The keys of the page. */
import { modKey } from "../ui/keys.ts"

const rows = (): readonly (readonly [keys: string, does: string])[] => [
  ["Enter", "Send; Shift+Enter starts a new line"],
  [modKey("Enter"), "Send first, or join the running turn"],
  ["Esc", "Close a layer; stop the turn (twice when text is typed)"],
  ["/", "To the prompt"],
  ["↑", "Earlier prompts, in an empty field"],
  ["1-9", "Option of a question"],
  ["End", "To the newest message"],
  ["Alt ↑ ↓", "Prompt before, prompt after"],
  [modKey("K"), "Search and commands"],
  [modKey("⇧O"), "New conversation"],
  [modKey("B"), "Conversations"],
  [modKey("J"), "Panel"],
  ["Ctrl `", "Terminal"],
  [modKey("⇧D"), "Changes"],
  [modKey("⇧P"), "Preview"],
  [modKey("⇧E"), "Editor"],
  [modKey("⇧C"), "Copy the last answer"],
  [modKey(","), "Settings"],
  ["F6", "To the next region; Shift+F6 to the one before"],
  ["?", "This list"],
]

export const Shortcuts = () => (
  <dl class="shortcuts">
    {rows().map(([keys, does]) => (
      <div key={keys} class="shortcut">
        <dt>
          <kbd>{keys}</kbd>
        </dt>
        <dd>{does}</dd>
      </div>
    ))}
  </dl>
)
