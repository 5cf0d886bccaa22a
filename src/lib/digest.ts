/** A text's short name, the same in every host: what has the same one is the same. */
import { createHash } from "node:crypto"

export const digestOf = (text: string): string =>
  `sha256:${createHash("sha256").update(text).digest("hex")}`
