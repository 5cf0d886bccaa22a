/** Copies a text and says so for a moment. */
import { useState } from "preact/hooks"
import { words } from "../words.ts"
import { copyText } from "./copy.ts"
import { IconButton } from "./icon-button.tsx"

const SHOWN_MS = 1500

export const CopyButton = ({
  text,
  label = words.copy,
}: {
  readonly text: () => string
  readonly label?: string
}) => {
  const [state, setState] = useState<"idle" | "done" | "failed">("idle")
  const copy = async () => {
    const copied = await copyText(text())
    setState(copied ? "done" : "failed")
    setTimeout(() => setState("idle"), SHOWN_MS)
  }
  const labels = { idle: label, done: words.copied, failed: words.copyFailed }
  return (
    <IconButton
      small
      icon={state === "done" ? "check" : "copy"}
      label={labels[state]}
      onClick={() => void copy()}
    />
  )
}
