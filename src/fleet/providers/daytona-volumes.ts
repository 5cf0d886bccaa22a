/** Volumes at Daytona. A new one can be mounted when it is ready. */
import { z } from "zod"
import { type Clock, sleep } from "../../lib/clock.ts"
import { jsonAs } from "./cloud-json.ts"
import { cloudVolumeName } from "./cloud-labels.ts"
import type { ProviderResult, SandboxSpec } from "./contract.ts"
import { DAYTONA_REF } from "./daytona-api.ts"
import type { HttpApi } from "./http.ts"

interface Mount {
  readonly volumeId: string
  readonly mountPath: string
}

export interface DaytonaVolumes {
  /** Makes the volumes that do not exist yet. */
  readonly ensure: (
    spec: SandboxSpec,
    limit: AbortSignal,
  ) => Promise<ProviderResult<readonly Mount[]>>
  readonly remove: (name: string) => Promise<ProviderResult<void>>
}

const POLL_MS = 250
const READY_MS = 2 * 60_000
const schema = z.object({ id: z.string().regex(DAYTONA_REF), state: z.string() })
const ok = { is: "ok", value: undefined } as const

export const daytonaVolumes = (api: HttpApi, clock: Clock): DaytonaVolumes => {
  const read = (name: string) =>
    api.call(
      { method: "GET", path: `/volumes/by-name/${encodeURIComponent(name)}` },
      { read: jsonAs(schema) },
    )

  const ensureOne = async (name: string, limit: AbortSignal): Promise<ProviderResult<string>> => {
    let seen = await read(name)
    if (seen.is === "missing") {
      const made = await api.done({ method: "POST", path: "/volumes", json: { name } })
      if (made.is === "refused") return made
      // Another create may have made it in the meantime: the read decides.
      seen = await read(name)
    }
    const until = clock.now() + READY_MS
    for (;;) {
      if (seen.is === "missing") return { is: "unknown", why: `the volume ${name} was not created` }
      if (seen.is !== "ok") return seen
      if (seen.value.state === "ready") return { is: "ok", value: seen.value.id }
      if (limit.aborted || clock.now() >= until || seen.value.state === "error")
        return { is: "unknown", why: `the volume ${name} is ${seen.value.state}` }
      await sleep(clock, POLL_MS, limit)
      seen = await read(name)
    }
  }

  return {
    ensure: async ({ volumes }, limit) => {
      const mounts: Mount[] = []
      if (volumes.some(({ readOnly }) => readOnly))
        return { is: "refused", why: "Daytona has no read-only volumes" }
      for (const { name, path } of volumes) {
        const made = await ensureOne(cloudVolumeName(name), limit)
        if (made.is !== "ok") return made
        mounts.push({ volumeId: made.value, mountPath: path })
      }
      return { is: "ok", value: mounts }
    },
    remove: async (name) => {
      const found = await read(cloudVolumeName(name))
      if (found.is !== "ok") return found.is === "missing" ? ok : found
      const removed = await api.done({ method: "DELETE", path: `/volumes/${found.value.id}` })
      return removed.is === "missing" ? ok : removed
    },
  }
}
