/** Carries out a call with an idempotency key once: a repeated call gets the first result. */

import { createHash } from "node:crypto"

export interface OnceOptions<Result> {
  readonly now: () => number
  readonly keepMs?: number
  readonly most?: number
  /** The memory that a result needs, in bytes. */
  readonly sizeOf?: (result: Result) => number
  readonly mostBytes?: number
}

/** The key was used before for a different call. */
export class KeyReused extends Error {
  override readonly name = "KeyReused"
}

export type Once<Result> = (
  key: string,
  call: string,
  run: () => Promise<Result>,
) => Promise<Result>

interface KeptCall<Result> {
  readonly call: string
  readonly result: Promise<Result>
  readonly since: number
  /** Zero while the call is in progress. */
  bytes: number
}

const KEEP_MS = 10 * 60_000
const MOST = 512
/** Of all kept results together. */
const MOST_BYTES = 16 * 1024 * 1024

export const createOnce = <Result>({
  now,
  keepMs = KEEP_MS,
  most = MOST,
  sizeOf = () => 0,
  mostBytes = MOST_BYTES,
}: OnceOptions<Result>): Once<Result> => {
  /** In the order of their calls: the first is the oldest. */
  const kept = new Map<string, KeptCall<Result>>()
  const removeOld = () => {
    for (const [key, { since }] of kept) {
      if (kept.size <= most && since >= now() - keepMs) return
      kept.delete(key)
    }
  }
  /** The newest result is always kept: it is the one that a caller most likely asks for again. */
  const removeLarge = (newest: string) => {
    let total = 0
    for (const { bytes } of kept.values()) total += bytes
    for (const [key, { bytes }] of kept) {
      if (total <= mostBytes) return
      if (bytes === 0 || key === newest) continue
      total -= bytes
      kept.delete(key)
    }
  }
  return async (key, input, run) => {
    removeOld()
    // The input itself may have megabytes; its hash is enough to recognise it.
    const call = createHash("sha256").update(input).digest("base64")
    const known = kept.get(key)
    if (known && known.call !== call) throw new KeyReused("this key was used for a different call")
    if (known) return known.result
    // A call in progress is kept too: a repeated call waits for its result.
    const entry: KeptCall<Result> = { call, result: run(), since: now(), bytes: 0 }
    kept.set(key, entry)
    const result = await entry.result
    entry.bytes = sizeOf(result)
    removeLarge(key)
    return result
  }
}
