/** Starts serve.ts in a separate process and measures its memory. */
import { join } from "node:path"
import { readFileSync } from "node:fs"

export interface Apart {
  readonly port: number
  readonly url: string
  readonly cookie: string
  /** The peak of its memory, in MB. */
  readonly peakMb: () => number
  /** Its current memory, in MB. */
  readonly nowMb: () => number
  readonly isAlive: () => boolean
  readonly stop: () => Promise<void>
}

export const startApart = async (
  backendPort: number,
  opencodePort = backendPort,
): Promise<Apart> => {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "serve.ts"), `${backendPort}`, `${opencodePort}`],
    { stdout: "pipe", stderr: "inherit" },
  )
  const { port, cookie } = JSON.parse(await firstLine(child.stdout)) as {
    port: number
    cookie: string
  }
  const memory = (field: string) => {
    const status = readFileSync(`/proc/${child.pid}/status`, "utf8")
    return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1]) / 1024)
  }
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    cookie,
    peakMb: () => memory("VmHWM"),
    nowMb: () => memory("VmRSS"),
    isAlive: () => child.exitCode === null,
    stop: async () => {
      child.kill()
      await child.exited
    },
  }
}

const firstLine = async (stream: ReadableStream<Uint8Array>): Promise<string> => {
  let text = ""
  for await (const bytes of stream) {
    text += new TextDecoder().decode(bytes)
    if (text.includes("\n")) return text.slice(0, text.indexOf("\n"))
  }
  throw new Error(`the gateway ended before it was ready: ${text}`)
}
