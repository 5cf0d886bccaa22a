/** Volumes at E2B. They are mounted by name and deleted by id. */
import { z } from "zod"
import { jsonAs } from "./cloud-json.ts"
import { cloudVolumeName } from "./cloud-labels.ts"
import type { ProviderResult, SandboxSpec } from "./contract.ts"
import type { HttpApi } from "./http.ts"

interface Mount {
  readonly name: string
  readonly path: string
}

export interface E2bVolumes {
  /** Makes the volumes that do not exist yet. */
  readonly ensure: (spec: SandboxSpec) => Promise<ProviderResult<readonly Mount[]>>
  readonly remove: (name: string) => Promise<ProviderResult<void>>
}

const schema = z.array(z.object({ name: z.string(), volumeID: z.string().regex(/^[\w-]{1,100}$/) }))
const ok = { is: "ok", value: undefined } as const

export const e2bVolumes = (api: HttpApi): E2bVolumes => {
  // An API without volumes answers "not found", which says nothing about a sandbox or its snapshot.
  const isMissing = () => false
  const list = () =>
    api.call({ method: "GET", path: "/volumes" }, { read: jsonAs(schema), isMissing })

  const ensureOne = async (name: string): Promise<ProviderResult<void>> => {
    const before = await list()
    if (before.is !== "ok") return before
    if (before.value.some((one) => one.name === name)) return ok
    const call = { method: "POST", path: "/volumes", json: { name } } as const
    const made = await api.done(call, { isMissing })
    if (made.is === "ok") return made
    // Another create may have made it in the meantime.
    const after = await list()
    return after.is === "ok" && after.value.some((one) => one.name === name) ? ok : made
  }

  return {
    ensure: async ({ volumes }) => {
      if (volumes.some(({ readOnly }) => readOnly))
        return { is: "refused", why: "E2B has no read-only volumes" }
      const mounts = volumes.map(({ name, path }) => ({ name: cloudVolumeName(name), path }))
      for (const { name } of mounts) {
        const made = await ensureOne(name)
        if (made.is !== "ok") return made
      }
      return { is: "ok", value: mounts }
    },
    remove: async (name) => {
      const known = await list()
      if (known.is !== "ok") return known
      for (const volume of known.value.filter((one) => one.name === cloudVolumeName(name))) {
        const removed = await api.done({ method: "DELETE", path: `/volumes/${volume.volumeID}` })
        if (removed.is !== "ok" && removed.is !== "missing") return removed
      }
      return ok
    },
  }
}
