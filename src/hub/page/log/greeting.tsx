/** An empty conversation: where the agent works, and ideas for a start. */
import { fromHome } from "../../view/paths.ts"
import { insertText } from "../client/drafts.ts"
import { openSettings } from "../client/layout.ts"
import { workspace } from "../client/open-path.ts"
import { git } from "../client/slices.ts"
import { isDemo } from "../dock/models.ts"
import { Icon } from "../ui/icon.tsx"
import { Mark } from "../ui/mark.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"

export const Greeting = () => {
  const branch = git.value?.branch
  const directory = workspace.value
  return (
    <div class="greeting">
      <Mark size={40} />
      <h2>{words.greeting}</h2>
      {directory !== "" && (
        <p>
          {words.worksIn} <code>{visible(fromHome(directory))}</code>
          {branch && (
            <>
              , {words.onBranch} <code>{visible(branch)}</code>
            </>
          )}
          .
        </p>
      )}
      <div class="ideas">
        {words.ideas.map((idea) => (
          <button key={idea} type="button" class="idea" onClick={() => insertText(idea, true)}>
            {idea}
            <Icon name="goes" size={15} />
          </button>
        ))}
      </div>
      {isDemo.value && (
        <p class="greeting-demo">
          <Icon name="alert" size={15} />
          <span>
            {words.demo}{" "}
            <button type="button" class="link" onClick={() => openSettings("models")}>
              {words.addKey}
            </button>
          </span>
        </p>
      )}
    </div>
  )
}
