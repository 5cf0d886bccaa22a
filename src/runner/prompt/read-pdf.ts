/**
 * Reads the text of a PDF in a separate process with a limit on time and memory. A PDF of a few kilobytes can take minutes
 * and gigabytes; in the runner it would block the event loop.
 */
import { readFile } from "node:fs/promises"
import { z } from "zod"
import { type Clock, sleep } from "../../lib/clock.ts"
import { runCommand } from "../../lib/run-command.ts"
import { AttachmentError } from "./fetch-file.ts"
import type { PdfText } from "./pdf-text.ts"

export interface PdfOptions {
  /** The command line that starts this program. */
  readonly self: readonly string[]
  /** The user of the process; undefined for the runner's own user. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  readonly clock: Clock
  readonly limitMs?: number
  readonly memoryBytes?: number
}

const LIMIT_MS = 30_000
const MEMORY_BYTES = 768 * 1024 * 1024
const MEMORY_POLL_MS = 50
const PAGE_BYTES = 4096
const MAX_OUTPUT = 64 * 1024 * 1024

const pdfText = z.object({ text: z.string(), pages: z.number() })

export const createReadPdf =
  ({ self, owner, clock, limitMs = LIMIT_MS, memoryBytes = MEMORY_BYTES }: PdfOptions) =>
  async (bytes: Uint8Array): Promise<PdfText> => {
    const [program = "", ...args] = self
    const tooBig = new AbortController()
    let hasEnded = false
    const watch = async (pid: number) => {
      while (!hasEnded && !tooBig.signal.aborted) {
        if ((await residentBytes(pid)) > memoryBytes) tooBig.abort()
        await sleep(clock, MEMORY_POLL_MS)
      }
    }
    const result = await runCommand(program, [...args, "read-pdf"], {
      input: bytes,
      env: {},
      // Not the workspace: the agent writes there, and nothing of it may be loaded.
      cwd: "/",
      timeoutMs: limitMs,
      maxOutput: MAX_OUTPUT,
      user: owner,
      signal: tooBig.signal,
      onStarted: (pid) => void watch(pid),
    })
      .catch((cause: unknown) => {
        throw new AttachmentError("it could not be read as a PDF", { cause })
      })
      .finally(() => {
        hasEnded = true
      })
    if (tooBig.signal.aborted) throw new AttachmentError("reading it needs too much memory")
    if (result.timedOut) throw new AttachmentError("reading it took too long")
    const read =
      result.exitCode === 0 ? pdfText.safeParse(JSON.parse(result.stdout)).data : undefined
    if (read === undefined) throw new AttachmentError("it could not be read as a PDF")
    return read
  }

/** Zero if the process has ended, or on a system without /proc. */
const residentBytes = async (pid: number): Promise<number> => {
  const pages = await readFile(`/proc/${pid}/statm`, "utf8").then(
    (text) => Number(text.split(" ")[1]),
    () => 0,
  )
  return pages * PAGE_BYTES
}
