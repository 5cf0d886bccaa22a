/** Snapshots at E2B, which are templates there. */
import { z } from "zod"
import { jsonAs } from "./cloud-json.ts"
import { readCloudSnapshotName } from "./cloud-labels.ts"
import type { ProviderResult, SnapshotInfo } from "./contract.ts"
import type { HttpApi } from "./http.ts"

export interface E2bSnapshots {
  readonly look: (snapshot: string) => Promise<ProviderResult<void>>
  readonly list: (deployment: string) => AsyncIterable<SnapshotInfo>
  readonly remove: (snapshot: string) => Promise<ProviderResult<void>>
}

const PAGE = 100
/** An id, or `<team>/<name>:<tag>`. */
export const SNAPSHOT_ID = /^[\w-][\w./:-]{0,199}$/
const schema = z.object({ snapshotID: z.string(), names: z.array(z.string()) })
type Listed = z.output<typeof schema>

const ok = { is: "ok", value: undefined } as const

export const e2bSnapshots = (api: HttpApi): E2bSnapshots => {
  const readPage = async (from: string | undefined) => {
    const query = { limit: String(PAGE), nextToken: from }
    const call = { method: "GET", path: "/snapshots", query } as const
    const answer = await api.send(call)
    const next = answer.status === undefined ? undefined : answer.headers.get("x-next-token")
    const rules = { read: jsonAs(z.array(schema)), isMissing: () => false }
    return { page: api.resultOf(call, answer, rules), next: next || undefined }
  }

  async function* readAll(): AsyncGenerator<ProviderResult<readonly Listed[]>> {
    let from: string | undefined
    do {
      const { page, next } = await readPage(from)
      yield page
      from = page.is === "ok" ? next : undefined
    } while (from !== undefined)
  }

  return {
    // A call for one template also answers "not found" for reasons of its own, so the list decides.
    look: async (snapshot) => {
      for await (const page of readAll()) {
        if (page.is !== "ok") return page
        const isThere = ({ snapshotID, names }: Listed) =>
          snapshotID === snapshot || names.includes(snapshot)
        if (page.value.some(isThere)) return ok
      }
      return { is: "missing" }
    },
    list: async function* (deployment) {
      for await (const page of readAll()) {
        if (page.is !== "ok")
          throw new Error(page.is === "missing" ? "E2B has no list of snapshots" : page.why)
        for (const { snapshotID: id, names } of page.value) {
          // A name has the team before it and a tag after it.
          const own = names.map((name) => name.replace(/^.*\//, "").replace(/:[^:]*$/, ""))
          const [createdAt] = own.flatMap((name) => readCloudSnapshotName(name, deployment) ?? [])
          if (createdAt !== undefined && SNAPSHOT_ID.test(id)) yield { id, createdAt }
        }
      }
    },
    remove: async (snapshot) => {
      if (!SNAPSHOT_ID.test(snapshot)) return ok
      const path = `/templates/${encodeURIComponent(snapshot)}`
      const result = await api.done({ method: "DELETE", path })
      return result.is === "missing" ? ok : result
    },
  }
}
