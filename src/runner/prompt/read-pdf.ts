/**
 * Reads the text of a PDF in a separate process with a limit on time and memory: a PDF of a few kilobytes can take
 * minutes and gigabytes, which would block the event loop of the runner.
 */
import { readFile } from "node:fs/promises"
import { execa } from "execa"
import { z } from "zod"
import { type Clock, sleep } from "../../lib/clock.ts"
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

const pdfText = z.object({ text: z.string(), pages: z.number() })

export const createReadPdf =
  ({ self, owner, clock, limitMs = LIMIT_MS, memoryBytes = MEMORY_BYTES }: PdfOptions) =>
  async (bytes: Uint8Array): Promise<PdfText> => {
    const [program = "", ...args] = self
    const child = execa(program, [...args, "read-pdf"], {
      input: bytes,
      env: {},
      extendEnv: false,
      // Not the workspace: the agent writes there, and nothing of it may be loaded.
      cwd: "/",
      reject: false,
      timeout: limitMs,
      killSignal: "SIGKILL",
      maxBuffer: 64 * 1024 * 1024,
      ...(owner && { uid: owner.uid, gid: owner.gid }),
    })
    let hasEnded = false
    let isTooBig = false
    const watch = async () => {
      while (!hasEnded && !isTooBig) {
        isTooBig = (await residentBytes(child.pid)) > memoryBytes
        if (isTooBig) child.kill("SIGKILL")
        await sleep(clock, MEMORY_POLL_MS)
      }
    }
    void watch()
    const result = await child
    hasEnded = true
    if (isTooBig) throw new AttachmentError("reading it needs too much memory")
    if (result.timedOut) throw new AttachmentError("reading it took too long")
    const read = result.failed ? undefined : pdfText.safeParse(JSON.parse(result.stdout)).data
    if (read === undefined) throw new AttachmentError("it could not be read as a PDF")
    return read
  }

/** Zero if the process has ended, or on a system without /proc. */
const residentBytes = async (pid: number | undefined): Promise<number> => {
  const pages = await readFile(`/proc/${pid}/statm`, "utf8").then(
    (text) => Number(text.split(" ")[1]),
    () => 0,
  )
  return pages * PAGE_BYTES
}
