/** The button of the microphone; while it records, how loud it is, time, stop and discard. */
import { useEffect, useRef, useState } from "preact/hooks"
import { Elapsed } from "../parts/elapsed.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"
import { type Recording, startRecording } from "./recorder.ts"

export const Recorder = ({
  onDone,
  onFailed,
}: {
  readonly onDone: (blob: Blob, lengthMs: number) => void
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
    if (blob && recording) onDone(blob, Date.now() - recording.startedAt)
  }
  if (!recording) return <IconButton icon="mic" label={words.record} onClick={() => void begin()} />
  return (
    <span class="recording" role="status">
      <span class="recording-dot" />
      <Level of={recording} />
      <span class="unseen">{words.recording}</span>
      <Elapsed since={recording.startedAt} as="stopwatch" />
      <IconButton small icon="check" label={words.recordStop} onClick={() => void end(true)} />
      <IconButton small icon="trash" label={words.recordDiscard} onClick={() => void end(false)} />
    </span>
  )
}

/** A bar as long as the sound is loud. */
const Level = ({ of }: { readonly of: Recording }) => {
  const bar = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    let frame = 0
    const draw = () => {
      if (bar.current) bar.current.style.scale = `${of.level()} 1`
      frame = requestAnimationFrame(draw)
    }
    draw()
    return () => cancelAnimationFrame(frame)
  }, [of])
  return (
    <span class="recording-level" aria-hidden="true">
      <span ref={bar} />
    </span>
  )
}
