/** Prompts that wait for their turn: send one first, take one back, remove one. */
import { useState } from "preact/hooks"
import type { QueuedPrompt } from "../../../wire/clients/conversation.ts"
import { insertText } from "../client/drafts.ts"
import { dock, openQuestion, request } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"

const Row = ({ prompt }: { readonly prompt: QueuedPrompt }) => {
  const { id, content, files = [] } = prompt
  const hasQuestion = openQuestion.value !== undefined
  const takeBack = async () => {
    const reply = await request({ type: "withdraw", id })
    if (reply.ok) insertText(content)
  }
  return (
    <li class="queue-row">
      <span class="queue-text">{content}</span>
      {files.length > 0 && (
        <span class="queue-files">
          <Icon name="attach" size={13} />
          {words.queuedFiles(files.length)}
        </span>
      )}
      <IconButton
        small
        icon="send"
        label={hasQuestion ? words.useAsAnswer : words.sendFirst}
        onClick={() => void request({ type: "promote", id })}
      />
      <IconButton small icon="pencil" label={words.takeBack} onClick={() => void takeBack()} />
      <IconButton
        small
        icon="close"
        label={words.removeQueued}
        onClick={() => void request({ type: "withdraw", id })}
      />
    </li>
  )
}

export const Queue = () => {
  const { queue } = dock.value
  const [asks, setAsks] = useState(false)
  if (queue.length === 0) return null
  const empty = () => {
    setAsks(false)
    for (const { id } of queue) void request({ type: "withdraw", id })
  }
  return (
    <section class="card queue" aria-label={words.queued}>
      <div class="queue-head">
        <Icon name="queue" />
        <span>{words.queued}</span>
        <span class="count">{queue.length}</span>
        <span class="grow" />
        {asks ? (
          <>
            <span>{words.emptyQueueAsk(queue.length)}</span>
            <Button small kind="bad" onClick={empty}>
              {words.remove}
            </Button>
            <Button small kind="ghost" onClick={() => setAsks(false)}>
              {words.cancel}
            </Button>
          </>
        ) : (
          queue.length > 1 && (
            <Button small kind="ghost" onClick={() => setAsks(true)}>
              {words.emptyQueue}
            </Button>
          )
        )}
      </div>
      <ul>
        {queue.map((prompt) => (
          <Row key={prompt.id} prompt={prompt} />
        ))}
      </ul>
    </section>
  )
}
