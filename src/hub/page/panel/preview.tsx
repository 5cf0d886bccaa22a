/** The web servers that the agent has registered, one at a time, in a frame. */
import { computed } from "@preact/signals"
import { useState } from "preact/hooks"
import { view } from "../client/store.ts"
import { IconButton } from "../ui/icon-button.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { Frame, openAddress } from "./frame.tsx"

interface Tunnel {
  readonly name: string
  readonly port?: number
  readonly listening?: boolean
}

const isTunnel = (value: unknown): value is Tunnel =>
  typeof value === "object" && value !== null && typeof (value as Tunnel).name === "string"

export const tunnels = computed((): readonly Tunnel[] => {
  const state = view.value.state["tunnels"]
  return Array.isArray(state) ? state.filter(isTunnel) : []
})

export const Preview = () => {
  const [chosen, setChosen] = useState<string | undefined>(undefined)
  const [version, setVersion] = useState(0)
  const tunnel = tunnels.value.find(({ name }) => name === chosen) ?? tunnels.value[0]
  if (!tunnel) return <Empty icon="globe" title={words.noPreview} text={words.noPreviewText} />
  const openTab = async () => {
    const { url } = await openAddress("tunnel", tunnel.name)
    if (url !== undefined) open(url, "_blank", "noopener,noreferrer")
  }
  return (
    <>
      <div class="preview-bar">
        <select
          aria-label={words.tunnel}
          value={tunnel.name}
          onChange={({ currentTarget }) => setChosen(currentTarget.value)}
        >
          {tunnels.value.map(({ name, port }) => (
            <option key={name} value={name}>
              {visible(name)}
              {port !== undefined ? ` :${port}` : ""}
            </option>
          ))}
        </select>
        {tunnel.listening !== undefined && (
          <span class={`preview-state ${tunnel.listening ? "is-on" : ""}`}>
            {tunnel.listening ? words.listening : words.notListening}
          </span>
        )}
        <span class="grow" />
        <IconButton icon="reload" label={words.reload} onClick={() => setVersion(version + 1)} />
        <IconButton icon="newTab" label={words.newTab} onClick={() => void openTab()} />
      </div>
      <Frame
        what="tunnel"
        name={tunnel.name}
        title={`${words.tabs.preview}: ${visible(tunnel.name)}`}
        version={version}
      />
    </>
  )
}
