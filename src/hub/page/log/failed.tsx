/** A turn that ended with an error: the reason, and what to do. */
import { openSettings } from "../client/layout.ts"
import { sendPrompt } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { copyText } from "../ui/copy.ts"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"

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
  /** The content of the prompt that failed; empty when it is not known. */
  readonly prompt: string
}) => (
  <div class="failed" data-anchor>
    <Icon name="alert" />
    <div class="failed-body">
      <p>
        <strong>{words.failedTitle}</strong> {error}
      </p>
      <div class="failed-acts">
        {prompt !== "" && (
          <Button small icon="reload" onClick={() => sendPrompt(prompt)}>
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
