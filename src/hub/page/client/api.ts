/** The hub over HTTP: what is read once, not watched. */
import type { Artifact, SearchHit } from "../../../wire/clients/conversation.ts"
import type { ClientMessage } from "../../../wire/clients/verbs.ts"
import type { ListedSession } from "../../view/sidebar-rows.ts"
import { words } from "../words.ts"
import { besidePage } from "./beside-page.ts"
import { keyHeader, refuse } from "./login.ts"

/** A verb and its fields; what sends it adds the id of the request. */
export type Request = WithoutId<ClientMessage>
type WithoutId<Message> = Message extends ClientMessage ? Omit<Message, "clientRequestId"> : never

/** A request to the hub. `undefined` when there is no connection or the hub refuses it. */
const get = async (path: string): Promise<Response | undefined> => {
  const response = await fetch(`/hub${path}`, { headers: keyHeader() }).catch(() => undefined)
  if (response?.status === 401) refuse()
  return response?.ok ? response : undefined
}

export interface SessionList {
  readonly sessions: readonly ListedSession[]
  /** A new session gets a sandbox of its own, and the person may create one. */
  readonly mayCreate?: boolean
  /** Where the hub can start another session on its own machine. */
  readonly workspaces?: readonly Workspace[]
  /** The model of prompts that name none, for all sessions of the person. */
  readonly defaultModel?: string
  readonly maySetModel?: boolean
}

/** In the directory of the first session, or in a git worktree of its own. */
export type Workspace = "same" | "worktree"

export const listSessions = async (): Promise<SessionList | undefined> => {
  const response = await get("/sessions?limit=100")
  const body = (await response?.json().catch(() => undefined)) as Partial<SessionList> | undefined
  return body?.sessions && { ...body, sessions: body.sessions }
}

/** Messages of all sessions that contain a text, newest first; `undefined` where the hub does not allow it. */
export const searchMessages = async (
  query: string,
): Promise<readonly (SearchHit & { readonly session: string })[] | undefined> => {
  const response = await get(`/search?q=${encodeURIComponent(query)}`)
  const body = (await response?.json().catch(() => undefined)) as
    | { readonly hits?: readonly (SearchHit & { readonly session: string })[] }
    | undefined
  return body?.hits
}

/** A request that changes something: what the hub answered, or the reason why it did not do it. */
const post = async (
  path: string,
  fields: object,
  method: "POST" | "PUT" = "POST",
): Promise<{ readonly body?: Readonly<Record<string, unknown>>; readonly problem?: string }> => {
  const response = await fetch(`/hub${path}`, {
    method,
    headers: { ...keyHeader(), "content-type": "application/json" },
    body: JSON.stringify(fields),
  }).catch(() => undefined)
  if (response === undefined) return { problem: words.reconnecting }
  if (response.status === 401) refuse()
  const body = (await response.json().catch(() => ({}))) as Readonly<Record<string, unknown>> & {
    readonly error?: { readonly message?: string }
  }
  return response.ok ? { body } : { problem: body.error?.message ?? `HTTP ${response.status}` }
}

const sessionPath = (session: string): string => `/sessions/${encodeURIComponent(session)}`

/** Creates a session; its id, or the reason why there is none. */
export const createSession = async (fields: {
  readonly workspace?: Workspace
}): Promise<{
  readonly id?: string
  readonly problem?: string
}> => {
  const { body, problem = words.reconnecting } = await post("/sessions", fields)
  const id = body?.["session"]
  return typeof id === "string" ? { id } : { problem }
}

/** Sets the model of prompts that name none; `undefined` when it was done, else the reason. */
export const setDefaultModel = async (model: string | null): Promise<string | undefined> =>
  (await post("/default-model", { model }, "PUT")).problem

/** Runs a verb in any session; `undefined` when it was done, else the reason. */
export const postVerb = async (
  session: string,
  { type, ...fields }: Request,
): Promise<string | undefined> => (await post(`${sessionPath(session)}/${type}`, fields)).problem

const IMAGE = /^image\/(png|jpeg|gif|webp)$/

const isImage = (mime: string): boolean => IMAGE.test(mime)

/** A browser needs four bytes of memory for each: a file of kilobytes can have gigabytes of them. */
const MOST_PIXELS = 64_000_000

/** Whether the page shows it. One that is too large, or whose size is not known, is a file to save. */
export const isShownImage = ({
  mime,
  width,
  height,
}: Pick<Artifact, "mime" | "width" | "height">): boolean =>
  isImage(mime) && width !== undefined && height !== undefined && width * height <= MOST_PIXELS

const artifactBlob = async (session: string, id: string): Promise<Blob | undefined> => {
  const response = await get(`${sessionPath(session)}/artifacts/${encodeURIComponent(id)}`)
  return response?.blob()
}

/** An image of the conversation as an address that only this page can use. */
export const artifactUrl = async (session: string, id: string): Promise<string | undefined> => {
  const blob = await artifactBlob(session, id)
  return blob && isImage(blob.type) ? URL.createObjectURL(blob) : undefined
}

/** Saves a file of the conversation under its name; false when the hub does not have it. It is never opened in the page. */
export const saveArtifact = async (session: string, id: string, name: string): Promise<boolean> => {
  const blob = await artifactBlob(session, id)
  if (!blob) return false
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
  return true
}

/** An address of the sandbox that works once and soon, or the reason why there is none. */
/** A link to the sandbox wakes it; the link itself is not used. Where nothing can be woken, nothing happens. */
export const wakeSandbox = async (session: string): Promise<void> => {
  await gatewayLink(session, "terminal")
}

export const gatewayLink = async (
  session: string,
  to: string,
): Promise<{ readonly url?: string; readonly problem?: string }> => {
  const { body, problem = words.reconnecting } = await post(`${sessionPath(session)}/links`, { to })
  const url = body?.["url"]
  return typeof url === "string" ? { url: await besidePage(url, session, location) } : { problem }
}
