/** What the fleet says about the disk of this sandbox, as a component of /ready. It is not essential: an agent tidies up by prompts. */
import { readFileSync } from "node:fs"
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"

const report = z.object({
  state: z.enum(["ok", "near", "full"]),
  advice: z.string().max(2000).optional(),
})

export interface DiskState {
  readonly state: "ready" | "degraded"
  readonly why?: string
}

/** Undefined: nothing is known, as in a sandbox whose disk is not watched. */
export const diskStateOf = (file: string | undefined): DiskState | undefined => {
  if (file === undefined) return undefined
  let text: string
  try {
    text = readFileSync(file, "utf8")
  } catch {
    // It is written after the first measurement.
    return undefined
  }
  const known = report.safeParse(parseJson(text)).data
  if (!known) return undefined
  if (known.state === "ok") return { state: "ready" }
  const why = known.state === "near" ? "the disk of the sandbox is nearly full" : known.advice
  return { state: "degraded", why: why ?? "the disk of the sandbox is full" }
}
