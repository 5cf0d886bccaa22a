/** What stands above the end of the page: status, queue, questions, and the composer. */
import { dock } from "../client/store.ts"
import { words } from "../words.ts"
import { Composer } from "./composer.tsx"
import { Interactions } from "./interactions.tsx"
import { Queue } from "./queue.tsx"
import { Status } from "./status.tsx"

export const Dock = () => (
  <div class="dock" id="dock">
    <div class="column">
      <Status />
      <Queue />
      <Interactions />
      {dock.value.hasEnded ? <p class="dock-ended">{words.ended}</p> : <Composer />}
    </div>
  </div>
)
