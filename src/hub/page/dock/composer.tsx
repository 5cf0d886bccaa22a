/** The field for prompts and typed answers, with files, voice, model, and send or stop. */
import { useSignalEffect } from "@preact/signals"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { attachmentOf, draftFile } from "../client/files.ts"
import { droppedFiles } from "../client/dropped.ts"
import { composerFocus } from "../client/focus.ts"
import { isTouch } from "../client/layout.ts"
import { changedPaths } from "../client/open-path.ts"
import { isUnspoken } from "../client/slices.ts"
import {
  channel,
  dock,
  isWorking,
  openQuestion,
  request,
  sendPrompt,
  session,
  stopTurn,
  turns,
} from "../client/store.ts"
import { textOfMessage } from "../log/message-text.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"
import { Attachments } from "./attachments.tsx"
import { ModelPicker } from "./model-picker.tsx"
import { Recorder } from "./recorder-bar.tsx"
import { submitsOn } from "./submit-key.ts"
import { type Suggestion, suggestionsFor, wordAt } from "./suggest.ts"
import { Suggestions } from "./suggestions.tsx"
import { runCommand } from "./run-command.ts"
import { useDraft } from "./use-draft.ts"

const MAX_CHARACTERS = 400_000
const LONG_PASTE = 10_000

/** Whether the person is still in this conversation. */
const stillIn =
  (inSession: string, inChannel: string): (() => boolean) =>
  () =>
    session.value === inSession && channel.value === inChannel

export const Composer = () => {
  const field = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const focus = () => field.current?.focus()
  const draft = useDraft(
    `${session.value}/${channel.value}`,
    () => document.activeElement === field.current,
    focus,
  )
  const { text } = draft
  const [note, setNote] = useState("")
  const [longPaste, setLongPaste] = useState<string | undefined>(undefined)
  const [cursor, setCursor] = useState(0)
  const [chosen, setChosen] = useState(0)
  const [isDismissed, setDismissed] = useState(false)
  const [recalled, setRecalled] = useState(-1)

  const question = openQuestion.value
  const isAnswer = question !== undefined
  const isTooLong = text.length > MAX_CHARACTERS
  const isEmpty = text.trim() === "" && draft.files.length === 0
  const canStop = isWorking.value && isEmpty && !isAnswer
  const suggestions = isDismissed ? [] : suggestionsFor({ text, cursor, files: changedPaths.value })

  useLayoutEffect(() => {
    const element = field.current
    if (!element) return
    // The field is as high as its text; its style limits it.
    element.style.height = "auto"
    element.style.height = `${element.scrollHeight}px`
  }, [text])
  useSignalEffect(() => {
    if (composerFocus.value > 0) focus()
  })
  useEffect(() => {
    if (!isTouch()) focus()
  }, [session.value, channel.value])

  const send = async (isFirst: boolean) => {
    if (isEmpty || isTooLong) return
    const content = text.trim()
    const isStillHere = stillIn(session.value, channel.value)
    setNote("")
    setRecalled(-1)
    if (question && draft.files.length === 0) {
      draft.clear()
      const reply = await request({ type: "answer", id: question.id, answer: content })
      if (!reply.ok && isStillHere()) {
        draft.setText(content)
        setNote(reply.error.code === "too-late" ? words.tooLate : reply.error.message)
      }
      return
    }
    if (draft.files.length === 0 && runCommand(content)) return draft.clear()
    const attachments = await Promise.all(draft.files.map(attachmentOf))
    // Files take a moment to read. In another conversation by then: text and files wait in the draft of this one.
    if (!isStillHere()) return
    const { model } = draft
    sendPrompt(content === "" ? attachments.map(({ filename }) => filename).join(", ") : content, {
      ...(model !== undefined && { model }),
      ...(attachments.length > 0 && { attachments }),
      ...(isFirst && isWorking.value && { steer: true }),
    })
    // Only now, so that the text is always in the draft or in the outbox.
    draft.clear()
  }

  const add = (files: readonly File[]) => {
    if (files.length === 0) return
    const isAdded = draft.addFiles(files.map((file) => draftFile(file, file.name)))
    setNote(isAdded ? "" : words.tooMany)
  }

  useSignalEffect(() => {
    const files = droppedFiles.value
    if (files.length === 0) return
    droppedFiles.value = []
    add(files)
  })

  const complete = (suggestion: Suggestion) => {
    const { from } = wordAt({ text, cursor })
    const rest = text.slice(cursor)
    draft.setText(`${text.slice(0, from)}${suggestion.text} ${rest}`)
    setCursor(from + suggestion.text.length + 1)
    focus()
  }

  const recall = (by: number): boolean => {
    const earlier = turns.value.flatMap(({ prompt }) => (prompt ? [textOfMessage(prompt)] : []))
    const next = recalled + by
    if (next < -1 || next >= earlier.length || (text !== "" && recalled === -1)) return false
    setRecalled(next)
    draft.setText(next === -1 ? "" : (earlier.at(-1 - next) ?? ""))
    return true
  }

  const onKey = (event: KeyboardEvent) => {
    if (suggestions.length > 0 && !event.isComposing) {
      const moves: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 }
      const by = moves[event.key]
      const current = suggestions[Math.min(chosen, suggestions.length - 1)]
      if (by !== undefined) {
        setChosen((chosen + by + suggestions.length) % suggestions.length)
        return event.preventDefault()
      }
      if (
        (event.key === "Tab" || event.key === "Enter") &&
        current &&
        current.text !== text.trim()
      ) {
        complete(current)
        return event.preventDefault()
      }
      if (event.key === "Escape") {
        setDismissed(true)
        event.stopPropagation()
        return event.preventDefault()
      }
    }
    if (event.key === "ArrowUp" && recall(1)) return event.preventDefault()
    if (event.key === "ArrowDown" && recalled >= 0 && recall(-1)) return event.preventDefault()
    const how = submitsOn(event, isTouch())
    if (how === undefined) return
    event.preventDefault()
    void send(how === "first")
  }

  const onPaste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])]
    if (files.length > 0) {
      event.preventDefault()
      return add(files)
    }
    const pasted = event.clipboardData?.getData("text/plain") ?? ""
    if (pasted.length > LONG_PASTE) setLongPaste(pasted)
  }

  const attachPaste = () => {
    if (longPaste === undefined) return
    const blob = new Blob([longPaste], { type: "text/plain" })
    if (draft.addFiles([draftFile(blob, words.pastedName)]))
      draft.setText(text.replace(longPaste, ""))
    setLongPaste(undefined)
  }

  const isFirst = isUnspoken.value
  const placeholder = isAnswer
    ? words.placeholderAnswer
    : isFirst
      ? words.placeholderFirst
      : words.placeholder
  const sendLabel = isAnswer ? words.answer : isWorking.value ? words.addToQueue : words.send

  return (
    <form
      class="composer"
      aria-label={words.promptForm}
      onSubmit={(event) => {
        event.preventDefault()
        void send(false)
      }}
    >
      <Attachments files={draft.files} onRemove={draft.removeFile} />
      <Suggestions
        items={suggestions}
        chosen={Math.min(chosen, suggestions.length - 1)}
        onChoose={complete}
      />
      <textarea
        ref={field}
        id="prompt"
        rows={1}
        aria-label={isAnswer ? words.placeholderAnswer : words.promptLabel}
        placeholder={placeholder}
        value={text}
        onInput={({ currentTarget }) => {
          draft.setText(currentTarget.value)
          setCursor(currentTarget.selectionStart)
          setDismissed(false)
          setChosen(0)
        }}
        onKeyDown={onKey}
        onPaste={onPaste}
      />
      {(note !== "" || isTooLong) && (
        <p class="composer-note is-bad" role="status">
          {isTooLong ? words.tooLong(text.length.toLocaleString("en")) : note}
        </p>
      )}
      {longPaste !== undefined && (
        <p class="composer-note" role="status">
          {words.longPaste(longPaste.length.toLocaleString("en"))}{" "}
          <Button small onClick={attachPaste}>
            {words.attachPaste}
          </Button>
          <IconButton
            small
            icon="close"
            label={words.close}
            onClick={() => setLongPaste(undefined)}
          />
        </p>
      )}
      <div class="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label={words.attach}
          onChange={({ currentTarget }) => {
            add([...(currentTarget.files ?? [])])
            currentTarget.value = ""
          }}
        />
        <IconButton icon="attach" label={words.attach} onClick={() => picker.current?.click()} />
        <Recorder
          onDone={(blob, lengthMs) => {
            const file = { ...draftFile(blob, words.recordingName), lengthMs }
            setNote(draft.addFiles([file]) ? "" : words.tooMany)
          }}
          onFailed={() => setNote(words.recordFailed)}
        />
        <ModelPicker chosen={draft.model} onChoose={draft.setModel} />
        <span class="grow" />
        <span class="composer-keys" aria-hidden="true">
          <kbd>{isWorking.value && !isAnswer ? words.stopKey : words.sendKey}</kbd>{" "}
          {isWorking.value && !isAnswer ? words.stopHint : words.sendHint}
        </span>
        {canStop ? (
          <button
            type="button"
            class="send is-stop"
            aria-label={words.stop}
            title={words.stop}
            disabled={dock.value.isStopping}
            onClick={stopTurn}
          >
            <Icon name="stop" size={14} />
          </button>
        ) : (
          <button
            type="submit"
            class="send"
            aria-label={sendLabel}
            title={sendLabel}
            disabled={isEmpty || isTooLong}
          >
            <Icon name={isWorking.value && !isAnswer ? "queue" : "send"} size={17} />
          </button>
        )}
      </div>
    </form>
  )
}
