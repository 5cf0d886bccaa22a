/**
 * Reads the text out of a PDF, in a process of its own that is ended when it takes too much: a few kilobytes can unfold
 * to minutes of work and gigabytes, in which the runner would hear and say nothing.
 */
import { readFile } from "node:fs/promises"
import { execa } from "execa"
import { z } from "zod"
import { type Clock, sleep } from "../../lib/clock.ts"
import { AttachmentError } from "./fetch-file.ts"
import type { PdfText } from "./pdf-text.ts"

export interface PdfOptions {
  /** This program, as it is started. */
  readonly self: readonly string[]
  /** Whom the process belongs to; else to the runner's user. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  readonly clock: Clock
  readonly limitMs?: number
  readonly memoryBytes?: number
}

const LIMIT_MS = 30_000
const MEMORY_BYTES = 768 * 1024 * 1024
const LOOK_MS = 50
const PAGE_BYTES = 4096

const pdfText = z.object({ text: z.string(), pages: z.number() })

export const createReadPdf =
  ({ self, owner, clock, limitMs = LIMIT_MS, memoryBytes = MEMORY_BYTES }: PdfOptions) =>
  async (bytes: Uint8Array): Promise<PdfText> => {
    const [program = "", ...words] = self
    const child = execa(program, [...words, "read-pdf"], {
      input: bytes,
      env: {},
      extendEnv: false,
      // The workspace is anybody's: nothing is looked for there.
      cwd: "/",
      reject: false,
      timeout: limitMs,
      killSignal: "SIGKILL",
      maxBuffer: 64 * 1024 * 1024,
      ...(owner && { uid: owner.uid, gid: owner.gid }),
    })
    let isOver = false
    let isTooBig = false
    const watch = async () => {
      while (!isOver && !isTooBig) {
        isTooBig = (await residentBytes(child.pid)) > memoryBytes
        if (isTooBig) child.kill("SIGKILL")
        await sleep(clock, LOOK_MS)
      }
    }
    void watch()
    const result = await child
    isOver = true
    if (isTooBig) throw new AttachmentError("it unfolds to more than can be read")
    if (result.timedOut) throw new AttachmentError("reading it took too long")
    const read = result.failed ? undefined : pdfText.safeParse(JSON.parse(result.stdout)).data
    if (read === undefined) throw new AttachmentError("it could not be read as a PDF")
    return read
  }

/** Zero where that cannot be known. */
const residentBytes = async (pid: number | undefined): Promise<number> => {
  const pages = await readFile(`/proc/${pid}/statm`, "utf8").then(
    (text) => Number(text.split(" ")[1]),
    () => 0,
  )
  return pages * PAGE_BYTES
}
