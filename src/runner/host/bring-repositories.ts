/** Brings the session's repositories into the workspace, at the start and later, and reports what is missing. */
import { withoutCredentials } from "../../lib/git-url.ts"
import { describeError } from "../../lib/log.ts"
import type { GitOptions } from "./clone-repository.ts"
import type { HostOptions } from "./host.ts"
import { writePersona } from "./persona.ts"
import { prepareAll } from "./prepare-repositories.ts"

export interface RepositoryOptions extends Pick<
  HostOptions,
  "config" | "clock" | "log" | "memory" | "setComponent"
> {
  readonly git: GitOptions
  /** The directory of the persona files, which name the repositories. */
  readonly persona: string
}

export interface Repositories {
  /** `restored`: the sandbox comes from a snapshot. `problem`: another one of the workspace. */
  readonly bring: (restored: boolean, problem?: string) => Promise<void>
  /** Tries once more, if a repository is missing. */
  readonly bringMissing: () => Promise<void>
}

const PULLED_FACT = "host.pulled-at"

export const createRepositories = (options: RepositoryOptions): Repositories => {
  const { config, clock, log, memory, setComponent, git, persona } = options
  const { repositories } = config
  /** What the workspace lacks beside repositories. */
  let other: string | undefined
  let isIncomplete = false
  /** One attempt at a time: two would clone into the same draft. */
  let last: Promise<void> = Promise.resolve()

  const mayPull = (restored: boolean): boolean => {
    if (repositories.length === 0 || config.gitPullOnRestore === "never") return false
    if (config.gitPullOnRestore === "restore" && !restored) return false
    const pulledAt = Number(memory.read(PULLED_FACT) ?? 0)
    return clock.now() - pulledAt >= config.gitPullEverySeconds * 1000
  }

  const attempt = async (restored: boolean): Promise<void> => {
    const pull = mayPull(restored)
    const { found, problems } = await prepareAll(repositories, {
      workDir: config.workDir,
      pull,
      ...git,
      onProgress: (progress) => setComponent("workspace", "starting", progress),
    })
    isIncomplete = found.length < repositories.length
    // A failed pull must not use up the interval: the next boot tries again.
    if (pull && problems.length === 0) memory.write(PULLED_FACT, String(clock.now()))
    const known = found.map(({ repository, directory }) => ({
      ...repository,
      url: withoutCredentials(repository.url),
      directory,
    }))
    await writePersona(persona, config.personaFiles ?? [], known).catch((error: unknown) =>
      log.warn("persona.not-written", { error: describeError(error) }),
    )
    const all = [...(other === undefined ? [] : [other]), ...problems]
    if (all.length > 0) setComponent("workspace", "degraded", all.join("; "))
    else setComponent("workspace", "ready")
  }

  const next = (run: () => Promise<void>): Promise<void> => {
    last = last.catch(() => {}).then(run)
    return last
  }

  return {
    bring: (restored, problem) => {
      other = problem ?? other
      return next(() => attempt(restored))
    },
    bringMissing: () => next(async () => (isIncomplete ? attempt(false) : undefined)),
  }
}
