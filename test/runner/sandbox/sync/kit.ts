/** Workspaces of several sandboxes of one session with the real `/v1` server, and an S3 service that checks signatures. */
import { chown, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { workspaceUrls } from "../../../../src/hub/handlers/workspace-urls.ts"
import { configureObjectStorage } from "../../../../src/hub/object-storage.ts"
import { systemClock } from "../../../../src/lib/clock.ts"
import { selfCommand } from "../../../../src/lib/self-command.ts"
import { createObjectCalls } from "../../../../src/runner/sandbox/sync/object-calls.ts"
import { createSandboxFiles } from "../../../../src/runner/sandbox/sync/sandbox-files.ts"
import {
  createWorkspaceCopy,
  type WorkspaceCopy,
} from "../../../../src/runner/sandbox/sync/workspace-copy.ts"
import { createV1Supervisor } from "../../../../src/runner/sandbox/v1/supervisor.ts"
import { recordingLog } from "../../../kit/log.ts"
import { otherUser } from "../v1/kit.ts"

export interface S3Place {
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string }
}

export interface SandboxWorkspace {
  readonly root: string
  readonly copy: WorkspaceCopy
  readonly put: (path: string, content: string | Uint8Array) => Promise<void>
  readonly stop: () => Promise<void>
}

/** The files belong to the user that stands for the agent's. */
export const own = (root: string) =>
  otherUser ? Bun.$`chown -R ${otherUser.uid}:${otherUser.gid} ${root}`.quiet() : undefined

export const startWorkspace = async (
  s3: S3Place,
  session = "session one",
  /** Called before a file is read for a save. */
  beforeRead: (path: string) => void = () => {},
  sweepAgeMs?: number,
): Promise<SandboxWorkspace> => {
  const base = await realpath(await mkdtemp(join(tmpdir(), "copy-")))
  const root = join(base, "workspace")
  await mkdir(root)
  await Bun.$`chmod 755 ${base}`
  if (otherUser) await chown(root, otherUser.uid, otherUser.gid)
  const v1 = createV1Supervisor({
    self: selfCommand(),
    root,
    user: otherUser,
    environment: () => ({ PATH: process.env["PATH"] ?? "" }),
    memory: { read: () => undefined, write: () => {} },
    clock: systemClock,
    log: recordingLog([]),
  })
  const storage = configureObjectStorage(
    {
      S3_ENDPOINT: s3.endpoint,
      S3_REGION: s3.region,
      S3_BUCKET: s3.bucket,
      S3_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      S3_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
    },
    Date.now,
  )
  const sign = workspaceUrls(storage)
  const files = createSandboxFiles(v1.address)
  return {
    root,
    copy: createWorkspaceCopy({
      urls: (fields) => sign(fields, { session, requestId: "r" }),
      objects: createObjectCalls(systemClock),
      files: {
        ...files,
        read: (path) => {
          beforeRead(path)
          return files.read(path)
        },
      },
      now: Date.now,
      log: recordingLog([]),
      ...(sweepAgeMs !== undefined && { sweepAgeMs }),
    }),
    put: async (path, content) => {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), content)
      await own(root)
    },
    stop: async () => {
      await v1.stop()
      await rm(base, { recursive: true, force: true })
    },
  }
}
