/** Runs a command in a pod: a WebSocket whose messages begin with the number of a stream. */
import { WebSocket } from "ws"
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"
import type { ProviderResult, SandboxCommandResult } from "./contract.ts"
import { retryAfterMs } from "./http.ts"

export interface PodCommand {
  /** With `wss:` or `ws:`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly ca: string | undefined
  readonly limit: AbortSignal
  /** What the command reads from its standard input, which stays open. */
  readonly input?: Uint8Array | undefined
}

const PROTOCOL = "v4.channel.k8s.io"
const MAX_OUTPUT = 1024 * 1024
const [STDIN, STDOUT, STDERR, ERROR] = [0, 1, 2, 3] as const

/** The last message: how the command ended. */
const endSchema = z.object({
  status: z.string(),
  message: z.string().optional(),
  reason: z.string().optional(),
  details: z
    .object({
      causes: z.array(z.object({ reason: z.string().optional(), message: z.string() })).optional(),
    })
    .optional(),
})

export const exitCodeOf = (text: string): number | undefined => {
  const end = endSchema.safeParse(parseJson(text)).data
  if (end?.status === "Success") return 0
  const cause = end?.details?.causes?.find(({ reason }) => reason === "ExitCode")
  return cause && /^\d+$/.test(cause.message) ? Number(cause.message) : undefined
}

const LATE = "the command did not end in time"

export const runInPod = (command: PodCommand): Promise<ProviderResult<SandboxCommandResult>> =>
  new Promise((resolve) => {
    // A socket that is ended before it listens for its error would end this process with it.
    if (command.limit.aborted) return resolve({ is: "unknown", why: LATE })
    const parts: Record<number, Buffer[]> = { [STDOUT]: [], [STDERR]: [], [ERROR]: [] }
    let size = 0
    const textOf = (stream: number) => Buffer.concat(parts[stream] ?? []).toString()
    const socket = new WebSocket(command.url, [PROTOCOL], {
      headers: command.headers,
      ...(command.ca !== undefined && { ca: command.ca }),
    })
    const finish = (result: ProviderResult<SandboxCommandResult>) => {
      command.limit.removeEventListener("abort", abort)
      resolve(result)
      socket.terminate()
    }
    const doubt = (why: string) => finish({ is: "unknown", why })
    const abort = () => doubt(LATE)
    command.limit.addEventListener("abort", abort)
    const { input } = command
    if (input) socket.on("open", () => socket.send(Buffer.concat([Uint8Array.of(STDIN), input])))
    socket.on("unexpected-response", (_request, { statusCode = 0, headers }) => {
      const after = headers["retry-after"]
      const afterMs = retryAfterMs(typeof after === "string" ? after : null, Date.now())
      const why = `the pod does not run the command: ${statusCode}`
      finish({ is: "unknown", why, ...(afterMs !== undefined && { afterMs }) })
    })
    socket.on("message", (data) => {
      const bytes = Buffer.isBuffer(data) ? data : Buffer.from(data as ArrayBuffer)
      size += bytes.length
      if (size > MAX_OUTPUT) return doubt("the output of the command is too long")
      parts[bytes[0] ?? 0]?.push(bytes.subarray(1))
    })
    socket.on("error", (error) => doubt(`the connection to the command failed: ${error.message}`))
    socket.on("close", () => {
      const exitCode = exitCodeOf(textOf(ERROR))
      if (exitCode === undefined) return doubt("the connection to the command was cut")
      finish({ is: "ok", value: { exitCode, stdout: textOf(STDOUT), stderr: textOf(STDERR) } })
    })
  })
