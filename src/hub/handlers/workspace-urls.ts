/** Signs URLs for the workspace of the session that asks. Files are named by their SHA-256, so a half save changes nothing. */
import { NO_OBJECT_STORAGE, type ObjectStorage } from "../object-storage.ts"
import { type ExternalHandlers, Refusal } from "./handler-table.ts"

export const workspaceUrls =
  (storage: ObjectStorage | undefined): ExternalHandlers["workspace-urls"] =>
  async ({ manifest, list, get = [], put = [], remove = [] }, { session }) => {
    if (!storage) throw new Refusal(NO_OBJECT_STORAGE)
    const file = (method: "GET" | "PUT" | "DELETE") => (sha256: string) =>
      storage.url(method, session, `files/${sha256}`)
    return {
      ...(manifest && {
        manifest: storage.url(manifest === "get" ? "GET" : "PUT", session, "manifest.json"),
      }),
      ...(list !== undefined && { list: storage.listUrl(session, "files/", list) }),
      get: get.map(file("GET")),
      put: put.map(file("PUT")),
      remove: remove.map(file("DELETE")),
    }
  }
