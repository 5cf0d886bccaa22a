/** What is typed and not sent, per conversation. It survives a reload, a switch and a lost connection. */
import { signal } from "@preact/signals"
import { readJson, storedNames, writeStored } from "./storage.ts"

export interface Draft {
  readonly text: string
  readonly model?: string
  readonly at: number
}

const PREFIX = "draft:"
const MAX_DRAFTS = 100

const nameOf = (conversation: string): string => `${PREFIX}${conversation}`

export const readDraft = (conversation: string): Draft =>
  readJson<Draft>(nameOf(conversation), { text: "", at: 0 })

export const writeDraft = (conversation: string, draft: Draft): void => {
  const isEmpty = draft.text === "" && draft.model === undefined
  writeStored(nameOf(conversation), isEmpty ? undefined : JSON.stringify(draft))
  if (!isEmpty) dropOldest()
}

const dropOldest = () => {
  const names = storedNames().filter((name) => name.startsWith(PREFIX))
  if (names.length <= MAX_DRAFTS) return
  const oldest = names
    .map((name) => ({ name, at: readJson<Draft>(name, { text: "", at: 0 }).at }))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, names.length - MAX_DRAFTS)
  for (const { name } of oldest) writeStored(name, undefined)
}

/** Text that something else puts into the composer: a prompt to edit, lines to ask about. */
export const inserted = signal<{ readonly text: string; readonly replace: boolean } | undefined>(
  undefined,
)

export const insertText = (text: string, replace = false): void => {
  inserted.value = { text, replace }
}

/** Another tab changed a draft. */
export const onDraftChanged = (listener: (conversation: string) => void): (() => void) => {
  const onStorage = ({ key }: StorageEvent) => {
    if (key?.startsWith(PREFIX)) listener(key.slice(PREFIX.length))
  }
  addEventListener("storage", onStorage)
  return () => removeEventListener("storage", onStorage)
}
