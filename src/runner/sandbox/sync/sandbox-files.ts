/** The workspace for the copy in object storage: calls of the server that runs as the agent's user. */
import { readLimitedText } from "../../../lib/read-limited.ts"
import { parseLimitedJson } from "../../../wire/json-limits.ts"
import type { V1Address } from "../v1/supervisor.ts"
import { type SavedFile, type Scanned, scanned } from "./manifest-state.ts"

type Body = NonNullable<RequestInit["body"]>

/** The server runs as the agent's user, who can put another program in its place. */
const MOST_SCAN = 64 * 1024 * 1024

export interface SandboxFiles {
  readonly scan: () => Promise<Scanned>
  readonly read: (path: string) => Promise<Response>
  /** Writes a file that does not exist; an existing one stays. */
  readonly write: (file: SavedFile, body: Body) => Promise<void>
}

export const createSandboxFiles = (address: () => Promise<V1Address | undefined>): SandboxFiles => {
  const call = async (method: string, path: string, body?: Body): Promise<Response> => {
    const server = await address()
    if (!server) throw new Error("the server of files and processes does not start")
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
      method,
      headers: { authorization: `Bearer ${server.token}` },
      ...(body !== undefined && { body }),
    })
    if (response.ok) return response
    throw new Error(`the server of files and processes answered ${response.status} to ${method}`)
  }
  return {
    scan: async () => {
      const text = await readLimitedText(await call("POST", "/copy/scan"), MOST_SCAN)
      if (text === undefined) throw new Error("the list of the workspace's files is too long")
      return scanned.parse(parseLimitedJson(text))
    },
    read: (path) => call("GET", `/v1/fs/file?path=${encodeURIComponent(path)}`),
    write: async ({ path, sha256, bytes, mode }, body) => {
      const query = new URLSearchParams({ path, sha256, bytes: String(bytes), mode: String(mode) })
      await call("PUT", `/copy/file?${query.toString()}`, body)
    },
  }
}
