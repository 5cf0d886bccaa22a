/** Files of a session's conversation in object storage, by URLs that the hub signs for itself. The same in both hosts. */
import type { ObjectStorage } from "./object-storage.ts"
import type { ArtifactObjects } from "./session/ports.ts"

const CALL_MS = 60_000

/** Errors never contain a URL, because it is a key. */
export const createArtifactObjects = (
  storage: ObjectStorage,
  session: () => string,
): ArtifactObjects => {
  const call = async (
    method: "GET" | "PUT",
    id: string,
    init: RequestInit = {},
  ): Promise<Response> => {
    const url = storage.url(method, session(), `artifacts/${encodeURIComponent(id)}`)
    const signal = AbortSignal.timeout(CALL_MS)
    const response = await fetch(url, { ...init, method, redirect: "manual", signal }).catch(() => {
      throw new Error("the object storage cannot be reached")
    })
    if (response.ok) return response
    await response.body?.cancel()
    throw new Error(`the object storage answered ${response.status}`)
  }
  return {
    put: async (id, mime, base64) => {
      const body = Uint8Array.from(Buffer.from(base64, "base64"))
      const response = await call("PUT", id, { body, headers: { "content-type": mime } })
      await response.body?.cancel()
    },
    get: async (id) => new Uint8Array(await (await call("GET", id)).arrayBuffer()),
  }
}
