/** What stands beside the conversation: tabs, and the body of the open one. Frames stay mounted when the tab changes. */
import { useRef } from "preact/hooks"
import { showPanel } from "../client/navigation.ts"
import { view } from "../client/store.ts"
import type { PanelName } from "../routes.ts"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"
import { changedFiles } from "./changed-files.ts"
import { Changes } from "./changes.tsx"
import { Images } from "./images.tsx"
import { Memories } from "./memories.tsx"
import { Preview, tunnels } from "./preview.tsx"
import { Review } from "./review.tsx"
import { ServiceFrame } from "./service-frame.tsx"
import { Tabs } from "./tabs.tsx"
import { Tasks } from "./tasks.tsx"

const FRAMES: readonly PanelName[] = ["terminal", "preview", "desktop", "editor"]
const MAX_FRAMES = 2

export const Panel = ({ name }: { readonly name: PanelName }) => {
  const opened = useRef<readonly PanelName[]>([])
  if (FRAMES.includes(name) && opened.current.at(-1) !== name)
    opened.current = [...opened.current.filter((one) => one !== name), name].slice(-MAX_FRAMES)
  const counts: Partial<Record<PanelName, number>> = {
    changes: changedFiles.value.length,
    preview: tunnels.value.length,
    images: view.value.artifacts.length,
  }
  return (
    <>
      <div class="panel-head">
        <IconButton
          icon="back"
          class="only-phone"
          label={words.hidePanel}
          onClick={() => history.back()}
        />
        <Tabs current={name} counts={counts} onChoose={showPanel} />
        <IconButton
          icon="close"
          class="not-phone"
          label={words.hidePanel}
          onClick={() => showPanel(undefined)}
        />
      </div>
      {!FRAMES.includes(name) && (
        <div class="panel-body" role="tabpanel" id="tabpanel" aria-labelledby={`tab-${name}`}>
          <Body name={name} />
        </div>
      )}
      {opened.current.map((frame) => (
        <div
          key={frame}
          class="panel-body is-frame"
          role="tabpanel"
          id={frame === name ? "tabpanel" : undefined}
          aria-labelledby={`tab-${frame}`}
          hidden={frame !== name}
        >
          {frame === "preview" ? <Preview /> : <ServiceFrame name={frame} />}
        </div>
      ))}
    </>
  )
}

const Body = ({ name }: { readonly name: PanelName }) => {
  switch (name) {
    case "changes":
      return <Changes />
    case "review":
      return <Review />
    case "images":
      return <Images />
    case "tasks":
      return <Tasks />
    case "memories":
      return <Memories />
    default:
      return null
  }
}
