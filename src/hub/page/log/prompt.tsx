/** What the person wrote: plain text, its files, and on demand its time, copy and undo. */
import { useMemo, useState } from "preact/hooks"
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import type { Pending } from "../../view/view.ts"
import { insertText } from "../client/drafts.ts"
import { git } from "../client/slices.ts"
import { deliver, dropPending, mayUse, request, view } from "../client/store.ts"
import { ArtifactImage } from "../parts/image.tsx"
import { Button } from "../ui/button.tsx"
import { clockTime } from "../ui/clock.ts"
import { CopyButton } from "../ui/copy-button.tsx"
import { Icon, type IconName } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { useKeptChoice } from "../ui/kept-choice.ts"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { textOfMessage } from "./message-text.ts"
import { filesOf, type PromptFile } from "./prompt-files.ts"
import { promptStart } from "./prompt-start.ts"

const iconOf = (mime: string): IconName =>
  mime.startsWith("image/") ? "image" : mime.startsWith("audio/") ? "audio" : "fileText"

/** The text of the voice messages, as the agent got it. */
const transcriptsOf = ({ parts }: MessageWithParts): readonly string[] =>
  parts.flatMap(({ kind, data }) => {
    const { transcript } = (data ?? {}) as { readonly transcript?: unknown }
    return kind === "transcript" && typeof transcript === "string" ? [transcript] : []
  })

const Bubble = ({ id, text }: { readonly id: string; readonly text: string }) => {
  const [all = false, setAll] = useKeptChoice(`${id}/prompt`)
  const start = useMemo(() => promptStart(text), [text])
  const isCut = !all && start !== undefined
  return (
    <>
      <div class="bubble-text">{isCut ? start : text}</div>
      {isCut && (
        <button type="button" class="bubble-more" onClick={() => setAll(true)}>
          {words.showAll}
        </button>
      )}
    </>
  )
}

const Files = ({ files }: { readonly files: readonly PromptFile[] }) =>
  files.length === 0 ? null : (
    <div class="bubble-files">
      {files.map(({ mime = "", filename, artifact }, index) =>
        artifact === undefined ? (
          <span key={index} class="chip">
            <Icon name={iconOf(mime)} size={14} />
            {visible(filename ?? mime)}
          </span>
        ) : (
          <ArtifactImage key={index} id={artifact} description={filename ?? ""} isSmall />
        ),
      )}
    </div>
  )

/** How many messages of the conversation follow this one. Read once: what streams in meanwhile changes nothing here. */
const countAfter = ({ channel, createdAt }: MessageWithParts): number =>
  [...view.peek().messages.values()].filter(
    (other) => other.channel === channel && other.createdAt > createdAt,
  ).length

export const Prompt = ({ message }: { readonly message: MessageWithParts }) => {
  const [asks, setAsks] = useState(false)
  const text = textOfMessage(message)
  /** The runner reports the state of git when the workspace is a repository. */
  const isRepository = git.value !== undefined
  const undo = () => {
    setAsks(false)
    void request({ type: "revert", messageId: message.id })
  }
  return (
    <div class="prompt" tabIndex={-1} data-prompt={message.id} data-anchor>
      <h2 class="unseen">{words.you(clockTime(message.createdAt))}</h2>
      <div class="bubble">
        <Bubble id={message.id} text={text} />
        <Files files={filesOf(message)} />
        {transcriptsOf(message).map((heard) => (
          <p key={heard} class="bubble-heard">
            {words.heard(visible(heard))}
          </p>
        ))}
      </div>
      {asks ? (
        <div class="prompt-ask" role="group">
          <span>
            {words.undoAsk(countAfter(message), isRepository ? words.undoFiles : words.undoNoFiles)}
          </span>
          <Button small kind="bad" onClick={undo}>
            {words.undoDo}
          </Button>
          <Button small kind="ghost" onClick={() => setAsks(false)}>
            {words.cancel}
          </Button>
        </div>
      ) : (
        <div class="prompt-acts">
          <time dateTime={new Date(message.createdAt).toISOString()}>
            {clockTime(message.createdAt)}
          </time>
          <CopyButton text={() => text} />
          {mayUse("revert") && (
            <IconButton small icon="undo" label={words.undo} onClick={() => setAsks(true)} />
          )}
        </div>
      )}
    </div>
  )
}

/** A prompt that the hub has not confirmed. */
export const PendingPrompt = ({ pending }: { readonly pending: Pending }) => {
  const { message, error, clientRequestId } = pending
  if (message.type !== "prompt") return null
  const sendAgain = () => {
    const { clientRequestId: _id, ...again } = message
    dropPending(clientRequestId)
    deliver(again)
  }
  const edit = () => {
    dropPending(clientRequestId)
    insertText(message.content)
  }
  return (
    <div class={`prompt is-pending ${error ? "is-refused" : ""}`} data-anchor>
      <h2 class="unseen">{words.you(clockTime(pending.at))}</h2>
      <div class="bubble">
        <Bubble id={clientRequestId} text={message.content} />
        <Files files={message.attachments ?? []} />
      </div>
      {error ? (
        <div class="prompt-ask is-bad" role="group">
          <span>{words.notSent(error.message)}</span>
          <Button small onClick={sendAgain}>
            {words.sendAgain}
          </Button>
          <Button small kind="ghost" onClick={edit}>
            {words.edit}
          </Button>
        </div>
      ) : (
        <div class="prompt-sending">
          <Icon name="clock" size={13} />
          {words.sending}
        </div>
      )}
    </div>
  )
}
