/** What `/` and `@` offer while the person types. Pure. */

export interface Suggestion {
  readonly kind: "command" | "file"
  /** Replaces the word at the cursor. */
  readonly text: string
  readonly about?: string
}

export interface SuggestInput {
  readonly text: string
  readonly cursor: number
  readonly files: readonly string[]
}

const COMMANDS: readonly (Suggestion & { readonly kind: "command" })[] = [
  { kind: "command", text: "/new", about: "Start a fresh agent session in this conversation" },
  { kind: "command", text: "/review", about: "Review the changes of the workspace" },
  { kind: "command", text: "/init", about: "Write AGENTS.md for this repository" },
  { kind: "command", text: "/compact", about: "Summarize the conversation so far" },
]

const MAX_SHOWN = 8

/** The word that is being completed: it starts at `from`. */
export const wordAt = ({
  text,
  cursor,
}: Pick<SuggestInput, "text" | "cursor">): { readonly from: number; readonly word: string } => {
  const from = text.slice(0, cursor).search(/\S*$/)
  return { from, word: text.slice(from, cursor) }
}

export const suggestionsFor = (input: SuggestInput): readonly Suggestion[] => {
  const { from, word } = wordAt(input)
  if (word.startsWith("/") && from === 0)
    return COMMANDS.filter(({ text }) => text.startsWith(word)).slice(0, MAX_SHOWN)
  if (!word.startsWith("@")) return []
  const wanted = word.slice(1).toLowerCase()
  return input.files
    .filter((path) => path.toLowerCase().includes(wanted))
    .slice(0, MAX_SHOWN)
    .map((path) => ({ kind: "file", text: `@${path}` }))
}
