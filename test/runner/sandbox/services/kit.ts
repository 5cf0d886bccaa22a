/** The services and env files of a sandbox with a temporary workspace. */
import { Database } from "bun:sqlite"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Clock, systemClock } from "../../../../src/lib/clock.ts"
import type { SandboxOperationPorts } from "../../../../src/runner/sandbox/operations.ts"
import { createEnvFiles } from "../../../../src/runner/sandbox/env-files/env-files.ts"
import { createRunCommand } from "../../../../src/runner/sandbox/run-command.ts"
import type { Secrets } from "../../../../src/runner/sandbox/secrets.ts"
import {
  type AppServices,
  createAppServices,
} from "../../../../src/runner/sandbox/services/app-services.ts"
import {
  openServiceStore,
  type ServiceStore,
} from "../../../../src/runner/sandbox/services/service-store.ts"
import { freePort } from "../../../kit/free-port.ts"
import { recordingLog } from "../../../kit/log.ts"

export interface TestServices {
  readonly root: string
  readonly services: AppServices
  readonly ports: SandboxOperationPorts["services"]
  readonly log: readonly string[]
  /** In place of 3000, which another program of the machine may use. */
  readonly usualPort: number
  /** The services of a runner that starts on the same state after this one was killed. */
  readonly again: () => AppServices
  readonly store: ServiceStore
  readonly end: () => Promise<void>
}

export const createTestServices = ({
  isSetup = false,
  secrets,
  clock = systemClock,
}: { isSetup?: boolean; secrets?: Secrets; clock?: Clock } = {}): TestServices => {
  const root = mkdtempSync(join(tmpdir(), "app-services-"))
  const log: string[] = []
  const db = new Database(":memory:")
  const environment = { PATH: process.env["PATH"] ?? "", HOME: root }
  const all: AppServices[] = []
  const store = openServiceStore(db)
  const usualPort = freePort()
  const create = () => {
    const services = createAppServices({
      store,
      logDir: join(root, ".logs"),
      workDir: root,
      environment,
      user: undefined,
      owner: root,
      clock,
      log: recordingLog(log),
      policy: { backoff: { min: 20, max: 100 }, steadyMs: 60_000, maxFailures: 4 },
      usualPort,
    })
    all.push(services)
    return services
  }
  const services = create()
  let remembered: string | undefined
  const envFiles = createEnvFiles({
    workDir: root,
    owner: undefined,
    secrets,
    runCommand: createRunCommand({
      workDir: root,
      environment,
      owner: undefined,
      clock,
    }),
    memory: {
      read: () => remembered,
      write: (text) => {
        remembered = text
      },
    },
    log: recordingLog(log),
  })
  return {
    root,
    services,
    log,
    usualPort,
    again: create,
    store,
    ports: {
      isSetup,
      services,
      envFiles,
      workDir: root,
      owner: undefined,
      publicUrl: () => "http://127.0.0.1:9000",
      clock,
    },
    end: async () => {
      for (const one of all) await one.suspend()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
