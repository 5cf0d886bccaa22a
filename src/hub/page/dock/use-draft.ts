/** The draft of the open conversation: text, model and files, stored at every pause. */
import { useSignalEffect } from "@preact/signals"
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import { inserted, onDraftChanged, readDraft, writeDraft } from "../client/drafts.ts"
import { type DraftFile, MAX_BYTES, MAX_FILES, readFiles, writeFiles } from "../client/files.ts"

const PAUSE_MS = 500

export interface DraftState {
  readonly text: string
  readonly setText: (text: string) => void
  readonly model: string | undefined
  readonly setModel: (model: string) => void
  readonly files: readonly DraftFile[]
  /** `false` when the files are too many or too large; then none is added. */
  readonly addFiles: (added: readonly DraftFile[]) => boolean
  readonly removeFile: (id: string) => void
  /** After sending. The model stays. */
  readonly clear: () => void
}

export const useDraft = (
  conversation: string,
  hasFocus: () => boolean,
  onInserted: () => void,
): DraftState => {
  const [text, setText] = useState("")
  const [model, setModel] = useState<string | undefined>(undefined)
  const [files, setFiles] = useState<readonly DraftFile[]>([])
  const current = useRef({ conversation: "", text, model, isStored: true })
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)

  const store = () => {
    clearTimeout(timer.current)
    const { conversation: of, text: typed, model: wanted, isStored } = current.current
    if (isStored || of === "") return
    current.current.isStored = true
    writeDraft(of, { text: typed, ...(wanted && { model: wanted }), at: Date.now() })
  }
  const load = (of: string) => {
    const draft = readDraft(of)
    current.current = { conversation: of, text: draft.text, model: draft.model, isStored: true }
    setText(draft.text)
    setModel(draft.model)
  }
  const change = (next: { readonly text?: string; readonly model?: string }) => {
    current.current = { ...current.current, ...next, isStored: false }
    setText(current.current.text)
    setModel(current.current.model)
    clearTimeout(timer.current)
    timer.current = setTimeout(store, PAUSE_MS)
  }

  // Before the next key: what is typed right after a switch belongs to the new conversation.
  useLayoutEffect(() => {
    load(conversation)
    let isCurrent = true
    setFiles([])
    void readFiles(conversation).then((found) => isCurrent && setFiles(found))
    const stop = onDraftChanged((changed) => {
      if (changed === conversation && !hasFocus()) load(conversation)
    })
    addEventListener("pagehide", store)
    return () => {
      isCurrent = false
      store()
      stop()
      removeEventListener("pagehide", store)
    }
  }, [conversation])

  useSignalEffect(() => {
    const wanted = inserted.value
    if (!wanted) return
    inserted.value = undefined
    const before = current.current.text
    const isEmpty = wanted.replace || before.trim() === ""
    change({ text: isEmpty ? wanted.text : `${before}\n${wanted.text}` })
    onInserted()
  })

  const keepFiles = (next: readonly DraftFile[]) => {
    setFiles(next)
    void writeFiles(conversation, next)
  }
  return {
    text,
    setText: (typed) => change({ text: typed }),
    model,
    setModel: (wanted) => change({ model: wanted }),
    files,
    addFiles: (added) => {
      const next = [...files, ...added]
      const bytes = next.reduce((sum, { size }) => sum + size, 0)
      if (next.length > MAX_FILES || bytes > MAX_BYTES) return false
      keepFiles(next)
      return true
    },
    removeFile: (id) => keepFiles(files.filter((file) => file.id !== id)),
    clear: () => {
      change({ text: "" })
      store()
      keepFiles([])
    },
  }
}
