/** The sandboxes of E2B as its API describes them. Pure. */
import { z } from "zod"
import { type CloudLabels, ownerOf } from "./cloud-labels.ts"
import type { SandboxInfo } from "./contract.ts"

export const ID = /^[\w-]{1,100}$/

export const createdSchema = z.object({ sandboxID: z.string().regex(ID) })
export const listedSchema = z.object({
  sandboxID: z.string().regex(ID),
  startedAt: z.string(),
  state: z.enum(["running", "paused"]),
  metadata: z.record(z.string(), z.string()).default({}),
})
export const detailSchema = listedSchema.extend({
  envdAccessToken: z.string().optional(),
  domain: z
    .string()
    .regex(/^[a-z0-9.-]+$/i)
    .nullish(),
})
export type Detail = z.output<typeof detailSchema>

export const infoOf = (box: z.output<typeof listedSchema>): SandboxInfo => {
  const createdAt = Date.parse(box.startedAt)
  return {
    ref: box.sandboxID,
    state: box.state,
    ...ownerOf(box.metadata),
    createdAt: Number.isNaN(createdAt) ? undefined : createdAt,
    // E2B pauses it at the end of its time.
    expiresAt: undefined,
  }
}

/** The query has the form of the SDK: names and values are encoded twice. */
export const metadataQuery = (labels: CloudLabels): string =>
  String(
    new URLSearchParams(
      Object.entries(labels).map(([name, value]): [string, string] => [
        encodeURIComponent(name),
        encodeURIComponent(value),
      ]),
    ),
  )
