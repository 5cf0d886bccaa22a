/** The button of the microphone; while it records, time, stop and discard. */
import { useState } from "preact/hooks"
import { Elapsed } from "../parts/elapsed.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"
import { type Recording, startRecording } from "./recorder.ts"

export const Recorder = ({
  onDone,
  onFailed,
}: {
  readonly onDone: (blob: Blob) => void
  readonly onFailed: () => void
}) => {
  const [recording, setRecording] = useState<Recording | undefined>(undefined)
  const begin = async () => {
    const started = await startRecording()
    if (started) setRecording(started)
    else onFailed()
  }
  const end = async (keep: boolean) => {
    const blob = await recording?.stop(keep)
    setRecording(undefined)
    if (blob) onDone(blob)
  }
  if (!recording) return <IconButton icon="mic" label={words.record} onClick={() => void begin()} />
  return (
    <span class="recording" role="status">
      <span class="recording-dot" />
      <span class="unseen">{words.recording}</span>
      <Elapsed since={recording.startedAt} as="stopwatch" />
      <IconButton small icon="check" label={words.recordStop} onClick={() => void end(true)} />
      <IconButton small icon="trash" label={words.recordDiscard} onClick={() => void end(false)} />
    </span>
  )
}
