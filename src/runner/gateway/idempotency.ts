/** Carries out a call with an idempotency key once: a repeated call gets the first result. */

export interface OnceOptions {
  readonly now: () => number
  readonly keepMs?: number
  readonly most?: number
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
}

const KEEP_MS = 10 * 60_000
const MOST = 512

export const createOnce = <Result>({
  now,
  keepMs = KEEP_MS,
  most = MOST,
}: OnceOptions): Once<Result> => {
  /** In the order of their calls: the first is the oldest. */
  const kept = new Map<string, KeptCall<Result>>()
  const removeOld = () => {
    for (const [key, { since }] of kept) {
      if (kept.size <= most && since >= now() - keepMs) return
      kept.delete(key)
    }
  }
  return async (key, call, run) => {
    removeOld()
    const known = kept.get(key)
    if (known && known.call !== call) throw new KeyReused("this key was used for a different call")
    if (known) return known.result
    // A call in progress is kept too: a repeated call waits for its result.
    const result = run()
    kept.set(key, { call, result, since: now() })
    return result
  }
}
