/** A voice message from the microphone. */

export interface Recording {
  /** Ends the recording; `undefined` when it is discarded or empty. */
  readonly stop: (keep: boolean) => Promise<Blob | undefined>
  readonly startedAt: number
  /** How loud it is now, from 0 to 1. */
  readonly level: () => number
}

/** The loudness of a stream, for a person to see that the microphone hears something. */
const createMeter = (
  stream: MediaStream,
): { readonly level: () => number; readonly end: () => void } => {
  const context = new AudioContext()
  const analyser = context.createAnalyser()
  context.createMediaStreamSource(stream).connect(analyser)
  const samples = new Float32Array(analyser.fftSize)
  return {
    level: () => {
      analyser.getFloatTimeDomainData(samples)
      // Speech is rarely louder than a third of the scale.
      return Math.min(1, 3 * Math.max(...samples.map(Math.abs)))
    },
    end: () => void context.close(),
  }
}

/** `undefined` when the browser or the person does not allow it. */
export const startRecording = async (): Promise<Recording | undefined> => {
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
    const recorder = new MediaRecorder(stream)
    const pieces: Blob[] = []
    recorder.addEventListener("dataavailable", ({ data }) => {
      if (data.size > 0) pieces.push(data)
    })
    recorder.start()
    const meter = createMeter(stream)
    return {
      startedAt: Date.now(),
      level: meter.level,
      stop: (keep) =>
        new Promise((resolve) => {
          recorder.addEventListener("stop", () => {
            for (const track of stream.getTracks()) track.stop()
            meter.end()
            const type = recorder.mimeType.split(";", 1)[0] ?? "audio/webm"
            resolve(keep && pieces.length > 0 ? new Blob(pieces, { type }) : undefined)
          })
          recorder.stop()
        }),
    }
  } catch {
    return undefined
  }
}
