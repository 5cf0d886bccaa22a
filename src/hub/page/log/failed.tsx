/** A turn that ended with an error: the reason, and what to do. */
import type { MessageWithParts } from "../../../wire/clients/conversation.ts"
import { insertText } from "../client/drafts.ts"
import { openSettings } from "../client/layout.ts"
import { sendPrompt } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { copyText } from "../ui/copy.ts"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { textOfMessage } from "./message-text.ts"
import { filesOf } from "./prompt-files.ts"

/** The list of the composer; where there is no composer, the settings. */
const chooseModel = () => {
  const button = document.querySelector<HTMLButtonElement>("#dock .picker-button")
  if (button) button.click()
  else openSettings("models")
}

export const Failed = ({
  error,
  prompt,
}: {
  readonly error: string
  /** The prompt that failed; undefined when it is not known. */
  readonly prompt: MessageWithParts | undefined
}) => {
  const content = prompt ? textOfMessage(prompt) : ""
  const files = prompt ? filesOf(prompt) : []
  // The page does not have the files any more: the person attaches them again before the prompt is sent.
  const tryAgain = () => (files.length > 0 ? insertText(content, true) : sendPrompt(content))
  return (
    <div class="failed" data-anchor>
      <Icon name="alert" />
      <div class="failed-body">
        <p>
          <strong>{words.failedTitle}</strong> {error}
        </p>
        {files.length > 0 && <p>{words.attachAgain}</p>}
        <div class="failed-acts">
          {content !== "" && (
            <Button small icon="reload" onClick={tryAgain}>
              {words.tryAgain}
            </Button>
          )}
          <Button small kind="ghost" onClick={chooseModel}>
            {words.changeModel}
          </Button>
          <Button small kind="ghost" icon="copy" onClick={() => void copyText(error)}>
            {words.copyDetails}
          </Button>
        </div>
      </div>
    </div>
  )
}
