/** Files of the workspace in object storage: the sandbox stores and reads them with URLs that the session agent signs. */
import { z } from "zod"
import { sandboxOperation, sessionOperation, unchanged, wireRequest } from "./define.ts"
import { noInput } from "./fields.ts"

/** Objects of one request. */
export const MOST_WORKSPACE_URLS = 200

const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hexadecimal")
const hashes = (doc: string) => z.array(sha256).max(MOST_WORKSPACE_URLS).optional().describe(doc)

const workspaceUrls = wireRequest(
  "workspace-urls",
  15_000,
  {
    manifest: z.enum(["get", "put"]).optional().describe("What to do with the manifest"),
    list: z
      .union([z.literal(""), sha256])
      .optional()
      .describe("List the stored files after this SHA-256; empty for the first page"),
    get: hashes("Files to read, by SHA-256"),
    put: hashes("Files to store, by SHA-256"),
    remove: hashes("Files to delete, by SHA-256"),
  },
  {
    manifest: z.string().optional(),
    list: z.string().optional(),
    get: z.array(z.string()),
    put: z.array(z.string()),
    remove: z.array(z.string()),
  },
)

export const requests = [workspaceUrls] as const

export const savedWorkspace = z.object({
  files: z.int(),
  uploaded: z.int(),
  bytes: z.int(),
  removed: z.int(),
  leftOut: z.int(),
})
export type SavedWorkspace = z.output<typeof savedWorkspace>

export const operations = [
  sessionOperation({
    name: "sign-workspace-urls",
    method: "POST",
    path: "/api/workspace/urls",
    doc: "Sign URLs for the files of this session in object storage; they are valid for an hour.",
    tools: { none: "the runner uses it when it saves and restores the workspace" },
    input: workspaceUrls.fields,
    output: workspaceUrls.result,
    request: workspaceUrls,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sandboxOperation({
    name: "save-workspace",
    method: "POST",
    path: "/api/workspace/save",
    doc: "Save the files of the workspace to object storage now.",
    tools: { none: "the runner saves by itself; the command is `sandpiper files save`" },
    input: noInput,
    output: savedWorkspace,
  }),
  sandboxOperation({
    name: "restore-workspace",
    method: "POST",
    path: "/api/workspace/restore",
    doc: "Write saved files that the workspace does not have. Files that exist are not changed.",
    tools: { none: "the runner restores by itself; the control plane uses it" },
    input: noInput,
    output: z.object({ files: z.int() }),
  }),
] as const
