/** Remembers ids until they expire, so that a token with an id (`jti`) is accepted once. */

export interface SingleUse {
  /** True the first time. `expiresAt`: when the token itself stops being accepted, in milliseconds since the epoch. */
  readonly accept: (id: string, expiresAt: number) => boolean
}

/** Refuses every new id while `most` unexpired ids are remembered: forgetting one would let it be used again. */
export const createSingleUse = (now: () => number, most = 10_000): SingleUse => {
  const used = new Map<string, number>()
  const sweep = () => {
    for (const [id, expiresAt] of used) if (expiresAt <= now()) used.delete(id)
  }
  return {
    accept: (id, expiresAt) => {
      if (expiresAt <= now()) return false
      if (used.size >= most) sweep()
      if (used.has(id) || used.size >= most) return false
      used.set(id, expiresAt)
      return true
    },
  }
}
