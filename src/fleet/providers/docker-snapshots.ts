/** Snapshots of containers: images of a repository of their own. A commit copies the labels of its container. */
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import { type ProviderResult, type SandboxProvider, UnsupportedError } from "./contract.ts"
import { label, listedContainers, parsed, withId } from "./docker-engine.ts"
import type { HttpApi } from "./http.ts"

const SNAPSHOTS = "localhost/sandpiper-snapshot"
/** An image that is still used by the container of this name after its snapshot was removed. */
const IN_USE = "localhost/sandpiper-in-use"
/** Podman answers 500 for an image that a container uses. */
const IN_USE_TEXT = /in use|used by|is using/
const SNAPSHOT = /^localhost\/sandpiper-snapshot:[\w.-]{1,128}$/
const LONG_MS = 10 * 60_000

const ok = { is: "ok", value: undefined } as const

const listedImages = z.array(
  z.object({
    RepoTags: z
      .array(z.string())
      .nullish()
      .transform((tags) => tags ?? []),
    /** In seconds. */
    Created: z.number(),
    Labels: z
      .record(z.string(), z.string())
      .nullish()
      .transform((labels) => labels ?? {}),
  }),
)

export interface DockerSnapshots extends Required<
  Pick<SandboxProvider, "snapshot" | "removeSnapshot" | "listSnapshots">
> {
  readonly look: (snapshot: string) => Promise<ProviderResult<void>>
  /** Removes the image that a container has kept from being removed. */
  readonly release: (ref: string) => Promise<ProviderResult<void>>
}

export const createDockerSnapshots = (http: HttpApi, clock: Clock): DockerSnapshots => {
  const image = (id: string) => `/images/${id.split("/").map(encodeURIComponent).join("/")}`

  /** The engine refuses to remove an image that a container uses. Such a container gets a tag of its own for it. */
  const removeUsed = async (snapshot: string): Promise<ProviderResult<void>> => {
    const users = await http.call(
      {
        method: "GET",
        path: "/containers/json",
        query: { all: "1", filters: JSON.stringify({ ancestor: [snapshot] }) },
      },
      { read: parsed(listedContainers) },
    )
    if (users.is !== "ok") return users
    for (const { info } of users.value) {
      const query = { repo: IN_USE, tag: info.ref }
      const tagged = await http.done({ method: "POST", path: `${image(snapshot)}/tag`, query })
      if (tagged.is !== "ok") return tagged
    }
    return http.done({ method: "DELETE", path: image(snapshot) })
  }

  return {
    snapshot: async (ref, kind, limit) => {
      if (kind === "memory") throw new UnsupportedError("docker", "snapshots of memory")
      const tag = `${ref}-${clock.now()}`
      const made = await http.call(
        {
          method: "POST",
          path: "/commit",
          query: { container: ref, repo: SNAPSHOTS, tag, pause: "1" },
          json: {},
          limit,
          deadlineMs: LONG_MS,
        },
        { read: parsed(withId) },
      )
      return made.is === "ok" ? { is: "ok", value: { id: `${SNAPSHOTS}:${tag}` } } : made
    },
    look: (snapshot) => http.done({ method: "GET", path: `${image(snapshot)}/json` }),
    removeSnapshot: async (snapshot) => {
      if (!SNAPSHOT.test(snapshot)) return ok
      const call = { method: "DELETE", path: image(snapshot) } as const
      const answer = await http.send(call)
      const isUsed =
        answer.status === 409 || (answer.status === 500 && IN_USE_TEXT.test(answer.text))
      const removed = isUsed
        ? await removeUsed(snapshot)
        : http.resultOf(call, answer, { read: () => true })
      return removed.is === "ok" || removed.is === "missing" ? ok : removed
    },
    listSnapshots: async function* ({ deployment }) {
      const filters = JSON.stringify({ label: [`${label("deployment")}=${deployment}`] })
      const found = await http.call(
        { method: "GET", path: "/images/json", query: { filters } },
        { read: parsed(listedImages) },
      )
      if (found.is !== "ok")
        throw new Error("why" in found ? found.why : "the engine has no list of images")
      for (const { RepoTags, Created, Labels } of found.value) {
        if (Labels[label("deployment")] !== deployment) continue
        for (const id of RepoTags.filter((tag) => SNAPSHOT.test(tag)))
          yield { id, createdAt: Created * 1000 }
      }
    },
    release: async (ref) => {
      const removed = await http.done({ method: "DELETE", path: image(`${IN_USE}:${ref}`) })
      return removed.is === "missing" ? ok : removed
    },
  }
}
