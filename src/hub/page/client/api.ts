/** The hub over HTTP: what is read once, not watched. */
import type { ListedSession } from "../../view/sidebar-rows.ts"
import { keyHeader, refuse } from "./login.ts"

/** A request to the hub. `undefined` when there is no connection or the hub refuses it. */
const get = async (path: string): Promise<Response | undefined> => {
  const response = await fetch(`/hub${path}`, { headers: keyHeader() }).catch(() => undefined)
  if (response?.status === 401) refuse()
  return response?.ok ? response : undefined
}

export const listSessions = async (): Promise<readonly ListedSession[] | undefined> => {
  const response = await get("/sessions?limit=100")
  const body = (await response?.json().catch(() => undefined)) as
    | { readonly sessions?: readonly ListedSession[] }
    | undefined
  return body?.sessions
}

const IMAGE = /^image\/(png|jpeg|gif|webp)$/

/** An image of the conversation as an address that only this page can use. */
export const artifactUrl = async (session: string, id: string): Promise<string | undefined> => {
  const response = await get(
    `/sessions/${encodeURIComponent(session)}/artifacts/${encodeURIComponent(id)}`,
  )
  const blob = await response?.blob()
  return blob && IMAGE.test(blob.type) ? URL.createObjectURL(blob) : undefined
}
