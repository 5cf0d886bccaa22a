/** Ids in OpenCode's format. OpenCode orders messages by id, so ours must ascend with time. */
import type { MintId } from "./types.ts"

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** The ids of one mint are unique and ascend, even if the clock stands still or steps back. */
export const createIdMint = (now: () => number): MintId => {
  let lastMs = 0
  let counter = 0
  return (prefix) => {
    const ms = now()
    counter = ms > lastMs ? 0 : counter + 1
    lastMs = Math.max(ms, lastMs)
    const stamp = (BigInt(lastMs) * 4096n + BigInt(counter)) & 0xffff_ffff_ffffn
    const random = Array.from(
      crypto.getRandomValues(new Uint8Array(14)),
      (byte) => BASE62[byte % 62] ?? "0",
    )
    return `${prefix}_${stamp.toString(16).padStart(12, "0")}${random.join("")}`
  }
}
