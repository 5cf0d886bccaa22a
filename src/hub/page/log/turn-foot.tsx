/** Below a finished reply: model, time, tokens, cost, and copy. */
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import { compactNumber, dollars, duration } from "../ui/clock.ts"
import { CopyButton } from "../ui/copy-button.tsx"
import { words } from "../words.ts"
import { modelName } from "../dock/models.ts"
import { textOfMessage } from "./message-text.ts"

export const TurnFoot = ({ message }: { readonly message: MessageWithParts }) => {
  const { model, usage, createdAt, endedAt } = message
  const tokens = usage
    ? usage.input + usage.output + usage.reasoning + usage.cacheRead + usage.cacheWrite
    : 0
  return (
    <div class="turn-foot">
      {model !== undefined && <span>{modelName(model)}</span>}
      {endedAt !== undefined && <span>{duration(endedAt - createdAt)}</span>}
      {tokens > 0 && <span class="not-phone">{words.tokens(compactNumber(tokens))}</span>}
      {usage && usage.cost > 0 && <span>{dollars(usage.cost)}</span>}
      <span class="turn-acts">
        <CopyButton text={() => textOfMessage(message)} label={words.copyMarkdown} />
      </span>
    </div>
  )
}
