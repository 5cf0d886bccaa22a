/** The keys of the page. */
import { hasSingleKeys, setSingleKeys } from "../client/single-keys.ts"
import { modKey } from "../ui/keys.ts"
import { words } from "../words.ts"

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
  ["J, K", "Next or former row, in the conversations and the changes"],
  ["F6", "To the next region; Shift+F6 to the one before"],
  ["?", "This list"],
]

export const Shortcuts = () => (
  <>
    <label class="setting">
      <span>
        <b>{words.singleKeys}</b>
        <small>{words.singleKeysText}</small>
      </span>
      <input
        type="checkbox"
        class="switch"
        role="switch"
        checked={hasSingleKeys.value}
        onChange={({ currentTarget }) => setSingleKeys(currentTarget.checked)}
      />
    </label>
    <List />
  </>
)

const List = () => (
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
