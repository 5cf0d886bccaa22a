/** A page of the sandbox. It has another origin than this page and can neither read it nor act on it. */
import type { ReadonlySignal } from "@preact/signals"
import { useEffect, useRef, useState } from "preact/hooks"
import { gatewayLink } from "../client/api.ts"
import { route } from "../client/navigation.ts"
import { stateOf } from "../client/slices.ts"
import { isDark, theme } from "../client/theme.ts"
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { useLeftFrame } from "./use-left-frame.ts"

const SANDBOX =
  "allow-scripts allow-same-origin allow-forms allow-popups allow-downloads allow-modals"

export interface FrameProps {
  readonly what: "vscode" | "vnc" | "terminal" | "tunnel"
  readonly name?: string
  readonly title: string
  /** Another value loads the frame again. */
  readonly version?: number
}

/** An address with a ticket, which works once and soon. */
export const openAddress = (
  what: FrameProps["what"],
  name: string | undefined,
): Promise<{ readonly url?: string; readonly problem?: string }> =>
  gatewayLink(route.value.session, name === undefined ? what : `${what}:${name}`)

const runner = stateOf("runner") as ReadonlySignal<{ readonly generation?: number } | undefined>

/** Changes when the session has another sandbox than the one that the frame shows. */
const useSandbox = (url: string | undefined): number => {
  const shown = useRef<number | undefined>(undefined)
  const [changes, setChanges] = useState(0)
  const generation = runner.value?.generation
  useEffect(() => {
    // A sandbox without a connection may come back.
    if (url === undefined || generation === undefined) return
    if (shown.current !== undefined && shown.current !== generation) setChanges(changes + 1)
    shown.current = generation
  }, [url, generation])
  return changes
}

export const Frame = ({ what, name, title, version = 0 }: FrameProps) => {
  const frame = useRef<HTMLIFrameElement>(null)
  const [state, setState] = useState<{ readonly url?: string; readonly problem?: string }>({})
  const [attempt, setAttempt] = useState(0)
  const sandbox = useSandbox(state.url)
  useEffect(() => {
    let isCurrent = true
    setState({})
    void openAddress(what, name).then((opened) => isCurrent && setState(opened))
    return () => {
      isCurrent = false
    }
  }, [what, name, version, attempt, sandbox])
  const tell = (message: object) => {
    if (what !== "terminal" || state.url === undefined) return
    frame.current?.contentWindow?.postMessage(message, new URL(state.url, location.href).origin)
  }
  const tellTheme = () => tell({ type: "theme", theme: isDark() ? "dark" : "light" })
  const loadedFor = useRef(0)
  const loaded = () => {
    tellTheme()
    // Not when the frame was loaded again by itself: the person may type elsewhere.
    if (loadedFor.current === sandbox) tell({ type: "focus" })
    loadedFor.current = sandbox
  }
  useEffect(tellTheme, [theme.value, state.url])
  useLeftFrame(frame, what === "terminal" ? state.url : undefined)
  if (state.problem !== undefined)
    return (
      <Empty icon="alert" title={words.frameFailed} text={state.problem}>
        <Button small onClick={() => setAttempt(attempt + 1)}>
          {words.tryAgain}
        </Button>
      </Empty>
    )
  if (state.url === undefined) return <Empty icon="screen" title={words.loading} isBusy />
  const mayCopy = what === "vscode" || what === "terminal"
  return (
    <iframe
      ref={frame}
      class="frame"
      title={title}
      src={state.url}
      sandbox={SANDBOX}
      referrerpolicy="no-referrer"
      allow={mayCopy ? "clipboard-read; clipboard-write" : ""}
      onLoad={loaded}
    />
  )
}
