/**
 * Prepares OpenCode's files on disk for a launch and gives them to the agent's user. Only the working directory and the
 * writable directories belong to that user; the names above them stay the runner's.
 */
import { chmod, chown, mkdir } from "node:fs/promises"
import type { Log } from "../../../lib/log.ts"
import { machineFolder, sessionFolder } from "../../../lib/state-folders.ts"
import type { AgentUser } from "../launch/interfaces.ts"
import { checkCode } from "./check-code.ts"
import {
  type AgentDirectories,
  prepareWritableDirs,
  writeConfigDirectory,
} from "./config-directories.ts"
import { type ConfigFiles, isBundled } from "./config-files.ts"
import { hasForeignConfig } from "./foreign-config.ts"
import type { LaunchPlan } from "./launch-plan.ts"

export interface InstallOptions {
  readonly directories: AgentDirectories
  readonly stateDir: string
  readonly workDir: string
  readonly opencodeVersion: string
  /** Path of this program. */
  readonly self: string
  /** The config files that this program carries; their code needs no check. */
  readonly ownFiles: ConfigFiles
  readonly user: AgentUser | undefined
  /** Changes the owner of a directory and its content; does nothing without a separate user. */
  readonly giveToUser: (path: string) => Promise<void>
  readonly giveWorkDirToUser: (path: string) => Promise<void>
  /** Adds files of other components to OpenCode's config directory. */
  readonly installExtraFiles: (configDir: string) => Promise<void>
  readonly workDirReady: () => Promise<void>
  readonly log: Log
}

export interface ConfigInstaller {
  /** Creates what must exist when OpenCode starts. */
  readonly prepareDirectories: () => Promise<void>
  /** Writes what OpenCode reads at its first request. */
  readonly writeConfig: (plan: LaunchPlan) => Promise<void>
}

export const createConfigInstaller = (options: InstallOptions): ConfigInstaller => {
  const { directories, workDir, opencodeVersion, ownFiles, user, log } = options

  return {
    prepareDirectories: async () => {
      await options.workDirReady()
      await mkdir(workDir, { recursive: true })
      await mkdir(directories.root, { recursive: true, mode: 0o700 })
      await mkdir(machineFolder(options.stateDir), { recursive: true, mode: 0o700 })
      if (user) {
        // The agent's user may traverse these directories, not list or change them.
        const { stateDir } = options
        const above = [stateDir, machineFolder(stateDir), sessionFolder(stateDir)]
        for (const path of [...above, directories.root]) await chmod(path, 0o711)
        // An owner other than root could replace the files that the runner reads and writes there.
        await chown(directories.root, 0, 0)
      }
      await prepareWritableDirs(directories, opencodeVersion)
      for (const path of directories.writableDirs) await options.giveToUser(path)
      await options.giveWorkDirToUser(workDir)
    },

    writeConfig: async (plan) => {
      // Checked now and not in the plan: the clone of the repository may contain such a config.
      const isOnlyOurs = !hasForeignConfig(workDir, plan.environment["HOME"])
      const catalogue = isOnlyOurs ? plan.catalogue : undefined
      const rejected = await writeConfigDirectory({
        directories,
        config: plan.config,
        files: plan.files,
        catalogue,
        opencodeVersion,
        checkCode: async (code) => {
          if (isBundled(plan.files, ownFiles)) return new Map()
          // The check runs as the agent's user, who must be able to read the files.
          await options.giveToUser(`${directories.config}.new`)
          return checkCode(code, { runtime: options.self, owner: user })
        },
      })
      for (const { path, problem } of rejected) log.error("agent.file-rejected", { path, problem })
      await options.installExtraFiles(directories.config)
      // Only the new files: OpenCode may run already, and its own files come and go meanwhile.
      const { config, authFile, catalogueFile } = directories
      for (const path of [config, authFile, ...(catalogue === undefined ? [] : [catalogueFile])])
        await options.giveToUser(path)
      await options.giveWorkDirToUser(workDir)
    },
  }
}
