/** Commands in an E2B sandbox: the process API of envd, Connect with JSON over HTTP. */
import { parseJson } from "../../lib/json.ts"
import { z } from "zod"
import type { ProviderResult, SandboxCommand, SandboxCommandResult } from "./contract.ts"
import type { HttpAnswer, HttpApi } from "./http.ts"

export const ENVD_PORT = 49_983

const END_OF_STREAM = 2
const HEADER_BYTES = 5

const text = z.string().optional()
const eventSchema = z.object({
  event: z.object({
    data: z.object({ stdout: text, stderr: text }).optional(),
    // Zero and false are left out of the JSON of a protobuf message.
    end: z.object({ exitCode: z.number().default(0), exited: z.boolean().optional() }).optional(),
  }),
})
const trailerSchema = z.object({ error: z.object({ message: z.string() }).partial().optional() })

const encode = (message: unknown): Uint8Array<ArrayBuffer> => {
  const json = Buffer.from(JSON.stringify(message))
  const framed = new Uint8Array(HEADER_BYTES + json.length)
  new DataView(framed.buffer).setUint32(1, json.length)
  framed.set(json, HEADER_BYTES)
  return framed
}

interface Frame {
  readonly isEnd: boolean
  readonly json: unknown
}

/** Undefined: the stream is cut within a message. */
export const decodeFrames = (bytes: Uint8Array): readonly Frame[] | undefined => {
  const frames: Frame[] = []
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  while (at < bytes.length) {
    if (at + HEADER_BYTES > bytes.length) return undefined
    const until = at + HEADER_BYTES + view.getUint32(at + 1)
    if (until > bytes.length) return undefined
    const json = parseJson(new TextDecoder().decode(bytes.subarray(at + HEADER_BYTES, until)))
    frames.push({ isEnd: (bytes[at] ?? 0) === END_OF_STREAM, json })
    at = until
  }
  return frames
}

const decodeOutput = (parts: readonly string[]): string =>
  Buffer.concat(parts.map((part) => Buffer.from(part, "base64"))).toString()

/** Undefined: the command's end is not in the answer. */
const readResult = ({ bytes }: HttpAnswer): SandboxCommandResult | undefined => {
  const frames = decodeFrames(bytes)
  if (!frames) return undefined
  const stdout: string[] = []
  const stderr: string[] = []
  let exitCode: number | undefined
  for (const { isEnd, json } of frames) {
    if (isEnd) {
      const trailer = trailerSchema.safeParse(json)
      if (!trailer.success || trailer.data.error) return undefined
      continue
    }
    const parsed = eventSchema.safeParse(json)
    if (!parsed.success) return undefined
    const { data, end } = parsed.data.event
    if (data?.stdout !== undefined) stdout.push(data.stdout)
    if (data?.stderr !== undefined) stderr.push(data.stderr)
    if (end) exitCode = end.exitCode
  }
  if (exitCode === undefined) return undefined
  return { exitCode, stdout: decodeOutput(stdout), stderr: decodeOutput(stderr) }
}

/** The user root: the entry point of the image needs it, and the agent gets a user of its own there. */
const AS_ROOT = `Basic ${Buffer.from("root:").toString("base64")}`

const headers = {
  "connect-protocol-version": "1",
  authorization: AS_ROOT,
}

/**
 * Runs a command to its end. A command that is not done at the limit is killed: it has a tag by which envd finds it.
 */
export const runInSandbox = async (
  envd: HttpApi,
  command: SandboxCommand,
  limit: AbortSignal,
  deadlineMs: number,
): Promise<ProviderResult<SandboxCommandResult>> => {
  const [cmd = "", ...args] = command.argv
  const tag = `sandpiper-${crypto.randomUUID()}`
  const result = await envd.call(
    {
      method: "POST",
      path: "/process.Process/Start",
      headers: { ...headers, "content-type": "application/connect+json" },
      body: encode({
        process: {
          cmd,
          args,
          ...(command.environment && { envs: command.environment }),
          ...(command.cwd !== undefined && { cwd: command.cwd }),
        },
        tag,
        stdin: false,
      }),
      secrets: Object.values(command.environment ?? {}),
      limit,
      deadlineMs,
    },
    // Only E2B's own API says that a sandbox does not exist.
    { read: readResult, isMissing: () => false },
  )
  if (result.is === "unknown" && limit.aborted)
    await envd.done({
      method: "POST",
      path: "/process.Process/SendSignal",
      headers,
      json: { process: { tag }, signal: "SIGNAL_SIGKILL" },
    })
  return result
}
