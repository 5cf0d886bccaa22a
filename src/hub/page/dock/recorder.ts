/** A voice message from the microphone. */

export interface Recording {
  /** Ends the recording; `undefined` when it is discarded or empty. */
  readonly stop: (keep: boolean) => Promise<Blob | undefined>
  readonly startedAt: number
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
    return {
      startedAt: Date.now(),
      stop: (keep) =>
        new Promise((resolve) => {
          recorder.addEventListener("stop", () => {
            for (const track of stream.getTracks()) track.stop()
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
