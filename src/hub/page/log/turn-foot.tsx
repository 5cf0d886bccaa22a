/** Below a finished reply: model, time, tokens, cost, and copy. */
import { Fragment } from "preact"
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import { compactNumber, dollars, duration } from "../ui/clock.ts"
import { copyText } from "../ui/copy.ts"
import { CopyButton } from "../ui/copy-button.tsx"
import { Menu } from "../ui/menu.tsx"
import { words } from "../words.ts"
import { modelName } from "../dock/models.ts"
import { textOfMessage } from "./message-text.ts"

const KINDS = ["input", "output", "reasoning", "cacheRead", "cacheWrite"] as const

/** The words of the answer as they stand on the screen, without Markdown. */
const plainTextOf = (id: string): string =>
  [...document.querySelectorAll<HTMLElement>(".reply")]
    .filter((reply) => reply.dataset["message"] === id)
    .flatMap((reply) => [...reply.querySelectorAll<HTMLElement>(":scope > .prose")])
    .map((prose) => prose.innerText)
    .join("\n\n")

const openText = (text: string): void => {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }))
  open(url, "_blank", "noopener")
  // The new tab has read it long before.
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS)
}

const KEPT_MS = 60_000

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
        <Menu
          isSmall
          label={words.replyMenu}
          items={[
            [words.copyPlain, () => void copyText(plainTextOf(message.id))],
            [words.openPlain, () => openText(textOfMessage(message))],
          ]}
        >
          {usage && tokens > 0 && (
            <dl class="menu-facts">
              {KINDS.filter((kind) => usage[kind] > 0).map((kind) => (
                <Fragment key={kind}>
                  <dt>{words.usageKinds[kind]}</dt>
                  <dd>{usage[kind].toLocaleString("en")}</dd>
                </Fragment>
              ))}
            </dl>
          )}
        </Menu>
      </span>
    </div>
  )
}
