/** A gateway with a real `/v1` server and a workspace of its own; the server runs as `nobody` if the test runs as root. */
import { chown, mkdir, mkdtemp, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../../../src/lib/clock.ts"
import { selfCommand } from "../../../../src/lib/self-command.ts"
import {
  createV1Supervisor,
  type V1Supervisor,
} from "../../../../src/runner/sandbox/v1/supervisor.ts"
import { recordingLog } from "../../../kit/log.ts"
import { makeControlToken, startTestGateway, type TestGateway } from "../../gateway/kit.ts"

/** The user that stands for the agent's; undefined if the test may not change users. */
export const otherUser = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: NonNullable<RequestInit["body"]>
  readonly signal?: AbortSignal
}

export interface V1Stage {
  readonly gateway: TestGateway
  readonly supervisor: V1Supervisor
  /** How often the gateway has reported that files may have changed. */
  readonly writes: () => number
  /** Ends the server as a runner does that stops, and starts another runner's. */
  readonly restartRunner: () => Promise<void>
  /** What the runner has stored about running processes, as JSON. */
  readonly storedProcesses: () => string
  /** The real path of the workspace. */
  readonly root: string
  /** A directory beside the workspace that only the test's user may use. */
  readonly outside: string
  readonly call: (method: string, path: string, init?: CallOptions) => Promise<Response>
  readonly stop: () => Promise<void>
}

export const startV1Stage = async (
  environment: Readonly<Record<string, string>> = {},
  self: readonly string[] = selfCommand(),
): Promise<V1Stage> => {
  const base = await realpath(await mkdtemp(join(tmpdir(), "v1-")))
  const root = join(base, "workspace")
  const outside = join(base, "outside")
  await mkdir(root, { mode: 0o755 })
  await mkdir(outside, { mode: 0o777 })
  await Bun.$`chmod 755 ${base} && chmod 777 ${outside}`
  if (otherUser) await chown(root, otherUser.uid, otherUser.gid)
  const memory: { fact: string | undefined } = { fact: undefined }
  const startSupervisor = () =>
    createV1Supervisor({
      self,
      root,
      user: otherUser,
      environment: () => ({ PATH: process.env["PATH"] ?? "", ...environment }),
      memory: {
        read: () => memory.fact,
        write: (text) => {
          memory.fact = text
        },
      },
      clock: systemClock,
      log: recordingLog([]),
    })
  let supervisor = startSupervisor()
  let writes = 0
  const gateway = startTestGateway({
    v1Server: () => supervisor.address(),
    onWritten: () => (writes += 1),
  })
  return {
    gateway,
    writes: () => writes,
    get supervisor() {
      return supervisor
    },
    storedProcesses: () => memory.fact ?? "",
    restartRunner: async () => {
      await supervisor.stop()
      supervisor = startSupervisor()
    },
    root,
    outside,
    call: (method, path, init = {}) =>
      fetch(`${gateway.url}${path}`, {
        ...init,
        method,
        headers: { ...init.headers, authorization: `Bearer ${makeControlToken()}` },
      }),
    stop: async () => {
      await supervisor.stop()
      await gateway.stop()
      await rm(base, { recursive: true, force: true })
    },
  }
}
