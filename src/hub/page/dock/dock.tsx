/** What stands above the end of the page: status, queue, questions, and the composer. */
import { dock, mayUse } from "../client/store.ts"
import { words } from "../words.ts"
import { Composer } from "./composer.tsx"
import { Interactions } from "./interactions.tsx"
import { Queue } from "./queue.tsx"
import { Status } from "./status.tsx"

const End = () => {
  if (dock.value.hasEnded) return <p class="dock-ended">{words.ended}</p>
  return mayUse("prompt") ? <Composer /> : <p class="dock-ended">{words.readOnly}</p>
}

export const Dock = () => (
  <div class="dock" id="dock">
    <div class="column">
      <Status />
      {mayUse("withdraw") && <Queue />}
      {mayUse("answer") && <Interactions />}
      <End />
    </div>
  </div>
)
