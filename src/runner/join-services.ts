/** Joins the agent's services and env files: they survive restarts of the runner and, if allowed, restores. */
import type { Database } from "bun:sqlite"
import { join } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../lib/log.ts"
import { factOf, readFact, writeFact } from "../lib/state-db.ts"
import { sessionFolder } from "../lib/state-folders.ts"
import type { Settings } from "../settings/settings.ts"
import { sandboxBootId } from "./host/detect-restore.ts"
import type { User } from "./host/users.ts"
import { createEnvFiles, type EnvFiles } from "./sandbox/env-files/env-files.ts"
import { createRunCommand } from "./sandbox/run-command.ts"
import type { Secrets } from "./sandbox/secrets.ts"
import { type AppServices, createAppServices } from "./sandbox/services/app-services.ts"
import { openServiceStore } from "./sandbox/services/service-store.ts"
import type { WorkPlace } from "./sandbox/workspace-files.ts"

export interface JoinServicesOptions extends WorkPlace {
  readonly config: Pick<Settings, "stateDir" | "snapshotHasDeps">
  /** Of the machine part: another session that gets this disk has the same services and env files. */
  readonly db: Database
  /** Of programs that run as the agent's user. */
  readonly environment: Readonly<Record<string, string>>
  readonly user: User | undefined
  readonly secrets: Secrets | undefined
  readonly clock: Clock
  readonly log: Log
}

export interface JoinedServices {
  readonly services: AppServices
  readonly envFiles: EnvFiles
  /** To be called when the agent is ready; only the first call counts. Env files come first. It does not throw. */
  readonly autostart: () => Promise<void>
  /** The host's services together with these, for a snapshot: `stop` also removes the env files from the disk. */
  readonly with: (host: StartStop) => StartStop
}

interface StartStop {
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

const BOOT_FACT = "services.boot"
const ENV_FILES_FACT = "env-files"

export const joinServices = (options: JoinServicesOptions): JoinedServices => {
  const { config, db, workDir, environment, user, secrets, clock, log } = options
  const services = createAppServices({
    store: openServiceStore(db),
    logDir: join(sessionFolder(config.stateDir), "services"),
    workDir,
    environment,
    user,
    owner: config.stateDir,
    clock,
    log,
  })
  const envFiles = createEnvFiles({
    root: options.root,
    workDir,
    owner: user,
    secrets,
    runCommand: createRunCommand({ workDir, environment, owner: user, clock }),
    memory: factOf(db, ENV_FILES_FACT),
    log,
  })
  /** In a restored sandbox, services need packages that only some snapshots contain. */
  const mayStart = (): boolean => {
    const boot = sandboxBootId()
    const before = readFact(db, BOOT_FACT)
    writeFact(db, BOOT_FACT, boot)
    return before === boot || config.snapshotHasDeps
  }
  const begin = async (starts: boolean): Promise<void> => {
    try {
      await envFiles.applyAgain()
    } catch (error) {
      log.warn("env-files.not-written", { error: describeError(error) })
    }
    if (!starts) return
    await services.resume().catch((error: unknown) => {
      log.warn("app-services.not-started", { error: describeError(error) })
    })
  }
  let begun: Promise<void> | undefined
  return {
    services,
    envFiles,
    autostart: () => (begun ??= begin(mayStart())),
    with: (host) => ({
      start: async () => {
        await host.start()
        await begin(true)
      },
      stop: async () => {
        await Promise.all([host.stop(), services.suspend()])
        await envFiles.hide()
      },
    }),
  }
}
