/** One reply of the agent: its rows, then how it ended. */
import { memo } from "../ui/memo.ts"
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import { blocksOf } from "../../view/turns.ts"
import { artifacts } from "../client/slices.ts"
import { Blocks } from "../parts/blocks.tsx"
import { ArtifactView } from "../parts/artifact.tsx"
import { Markdown } from "../parts/lazy-markdown.tsx"
import { words } from "../words.ts"
import { Failed } from "./failed.tsx"
import { textOfMessage } from "./message-text.ts"
import { Notices } from "./notices.tsx"
import { TurnFoot } from "./turn-foot.tsx"

export interface ReplyProps {
  readonly message: MessageWithParts
  /** The prompt that it answers; undefined when it is not known. */
  readonly prompt: MessageWithParts | undefined
  readonly isLast: boolean
}

const Images = ({ messageId }: { readonly messageId: string }) => (
  <>
    {artifacts.value
      .filter((artifact) => artifact.messageId === messageId)
      .map((artifact) => (
        <ArtifactView key={artifact.id} {...artifact} />
      ))}
  </>
)

export const Reply = memo(({ message, prompt, isLast }: ReplyProps) => {
  const { status, error, role } = message
  if (role === "system")
    return (
      <div class="system">
        {textOfMessage(message) !== "" && <Markdown text={textOfMessage(message)} />}
        {error !== undefined && <Failed error={error} prompt={prompt} />}
      </div>
    )
  const blocks = blocksOf(message)
  const isStreaming = status === "streaming"
  const isEmpty = blocks.length === 0
  return (
    <article
      class={`reply ${isLast ? "is-last" : ""}`}
      aria-label={words.agent}
      data-message={message.id}
    >
      <Blocks blocks={blocks} isStreaming={isStreaming} isLast={isLast} />
      <Images messageId={message.id} />
      <Notices messageId={message.id} />
      {status === "canceled" && <p class="stopped">{words.stopped}</p>}
      {status === "error" && <Failed error={error ?? ""} prompt={prompt} />}
      {status === "done" && isEmpty && <p class="stopped">{words.saidNothing}</p>}
      {!isStreaming && <TurnFoot message={message} />}
    </article>
  )
})
