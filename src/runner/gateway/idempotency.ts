/** Remembers what calls with a key were answered: the same call again gets the first answer, done once. */

export interface OnceOptions {
  readonly now: () => number
  readonly keepMs?: number
  readonly most?: number
}

/** The key was used for something else: neither answer would be right. */
export class KeyReused extends Error {
  override readonly name = "KeyReused"
}

export type Once<Answer> = (
  key: string,
  call: string,
  run: () => Promise<Answer>,
) => Promise<Answer>

interface Kept<Answer> {
  readonly call: string
  readonly answer: Promise<Answer>
  readonly since: number
}

const KEEP_MS = 10 * 60_000
const MOST = 512

export const createOnce = <Answer>({
  now,
  keepMs = KEEP_MS,
  most = MOST,
}: OnceOptions): Once<Answer> => {
  /** In the order they came, so the first is always the oldest. */
  const kept = new Map<string, Kept<Answer>>()
  const forgetOld = () => {
    for (const [key, { since }] of kept) {
      if (kept.size <= most && since >= now() - keepMs) return
      kept.delete(key)
    }
  }
  return async (key, call, run) => {
    forgetOld()
    const known = kept.get(key)
    if (known && known.call !== call) throw new KeyReused("the key was used for another call")
    if (known) return known.answer
    // One that is still under way is kept too: a repetition waits for the first.
    const answer = run()
    kept.set(key, { call, answer, since: now() })
    return answer
  }
}
