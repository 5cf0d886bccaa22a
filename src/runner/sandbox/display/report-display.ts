/**
 * Sends what is new or changed in the display folder at the end of a turn, in one frame. What was sent is stored in the
 * transaction that stores the frame; the session agent recognizes a file that is sent again.
 */
import { createHash } from "node:crypto"
import { contentTypeOf } from "../../../lib/content-type.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import type { FileOwner } from "../../../lib/untrusted-files.ts"
import { displayLimits } from "../../../wire/frames/display.ts"
import type { Outbound, OutboundFrame } from "../../../wire/frames/index.ts"
import { decide, type FoundFile, type Known, planFiles, reasons } from "./display-state.ts"
import type { DisplayStore } from "./display-store.ts"
import { findFiles, readFound } from "./read-folder.ts"

type TurnAddress = Pick<Outbound<"artifacts">, "turnId" | "messageId" | "channelType" | "channelId">

export interface DisplayReporterOptions {
  readonly workDir: string
  readonly store: DisplayStore
  /** The user whose files are shown; undefined for the runner's own. */
  readonly owner: FileOwner | undefined
  readonly send: (frame: OutboundFrame) => void
  readonly log: Log
}

export interface DisplayReporter {
  /** Before the first turn: files that are there already, for example of a clone, are not the agent's. */
  readonly start: () => void
  readonly turnEnded: (turn: TurnAddress) => void
  /** Resolves when the files of every ended turn are sent. */
  readonly settled: () => Promise<void>
  /** Inside the transaction that stores the frames. */
  readonly persist: () => void
  /** After the commit. */
  readonly persisted: () => void
}

export const createDisplayReporter = (options: DisplayReporterOptions): DisplayReporter => {
  const { workDir, store, owner, send, log } = options
  let known: Known | undefined = store.load()
  let isStored = true
  let last: Promise<void> = Promise.resolve()

  const inOrder = (work: () => Promise<void>): void => {
    last = last.then(work).catch((error: unknown) => {
      log.warn("display.read-failed", { error: describeError(error) })
    })
  }

  const lookFirst = async (): Promise<void> => {
    if (known !== undefined) return
    const found = await findFiles(workDir)
    const files = await readAll(planFiles(found, new Map()).read)
    known = decide(found, files, new Map()).known
    store.save(known)
  }

  const readAll = async (wanted: readonly FoundFile[]) => {
    const read = []
    for (const { path, stamp } of wanted) {
      const bytes = await readFound(workDir, path, owner)
      if (bytes === undefined) continue
      const sha256 = createHash("sha256").update(bytes).digest("hex")
      read.push({ path, stamp, sha256, mime: contentTypeOf(bytes), bytes })
    }
    return read
  }

  const report = async (turn: TurnAddress): Promise<void> => {
    const before = known ?? new Map()
    const found = await findFiles(workDir)
    const plan = planFiles(found, before)
    const read = await readAll(plan.read)
    const readable = new Set(read.map(({ path }) => path))
    const unreadable = plan.read.filter(({ path }) => !readable.has(path))
    const { shown, omitted, known: next } = decide(found, read, before)
    known = next
    isStored = false
    const files = read
      .filter(({ path }) => shown.has(path))
      .map(({ path, sha256, bytes }) => ({ path, sha256, data: bytes.toString("base64") }))
    const notShown = [
      ...plan.omitted,
      ...omitted,
      ...unreadable.map(({ path }) => ({ path, reason: reasons.unreadable })),
    ].slice(0, displayLimits.files)
    if (files.length === 0 && notShown.length === 0) return
    send({
      type: "artifacts",
      ...turn,
      files,
      ...(notShown.length > 0 && { omitted: notShown }),
    })
  }

  return {
    start: () => inOrder(lookFirst),
    turnEnded: (turn) => inOrder(() => report(turn)),
    settled: () => last,
    persist: () => {
      if (!isStored && known) store.save(known)
    },
    persisted: () => {
      isStored = true
    },
  }
}
