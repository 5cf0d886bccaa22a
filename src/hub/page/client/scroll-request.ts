/** Where the log should scroll to: keys and search ask for it, the log does it. */
import { signal } from "@preact/signals"

export type ScrollRequest =
  | { readonly to: "end" }
  | { readonly to: "turn"; readonly id: string }
  | { readonly to: "prompt"; readonly by: 1 | -1 }

export const scrollTo = signal<ScrollRequest | undefined>(undefined)
