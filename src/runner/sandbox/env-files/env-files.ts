/** Writes env files from secrets, removes them before a snapshot, and writes them again afterwards. */
import { basename, dirname } from "node:path"
import type { Log } from "../../../lib/log.ts"
import type { RunCommand } from "../run-command.ts"
import { noMask } from "../secret-mask.ts"
import type { Secrets } from "../secrets.ts"
import { SecretsError } from "../secrets-error.ts"
import { checkInside, type Owner, type WorkPlace, writeSecretFile } from "../workspace-files.ts"
import { contentOf, type EnvFile, excludeLine, problemOf, referencesIn } from "./plan.ts"

export interface EnvFilesOptions extends WorkPlace {
  readonly owner: Owner | undefined
  /** Undefined where the sandbox has no source of secrets. */
  readonly secrets: Secrets | undefined
  /** Runs as the agent's user, who can replace any path of the workspace by a link. */
  readonly runCommand: RunCommand
  /** The files that were applied last, with references and without secret values. */
  readonly memory: {
    readonly read: () => string | undefined
    readonly write: (text: string) => void
  }
  readonly log: Log
}

export interface EnvFiles {
  /** Checks all files and resolves all secrets before the first file is written. Resolves to the paths. */
  readonly apply: (files: readonly EnvFile[]) => Promise<readonly string[]>
  /** Writes the files that were applied last once more, for example after a restore. */
  readonly applyAgain: () => Promise<void>
  /** Removes the files from the disk and remembers them. */
  readonly hide: () => Promise<readonly string[]>
  /** Removes the files from the disk and forgets them. */
  readonly scrub: () => Promise<readonly string[]>
}

const GIT_MS = 10_000

/** Adds `$1` to the exclude file of the repository that contains the working directory. */
const EXCLUDE = `top=$(git rev-parse --show-prefix) || exit 0
file=$(git rev-parse --git-path info/exclude) || exit 0
mkdir -p "$(dirname "$file")"
line="$1"; [ -n "$top" ] && line="/$top\${1#/}"
grep -qxF -- "$line" "$file" 2>/dev/null || printf '%s\\n' "$line" >> "$file"`

export const createEnvFiles = (options: EnvFilesOptions): EnvFiles => {
  const { owner, secrets, runCommand, memory, log } = options

  const remembered = (): readonly EnvFile[] => JSON.parse(memory.read() ?? "[]")

  const valuesOf = async (files: readonly EnvFile[]): Promise<ReadonlyMap<string, string>> => {
    const references = referencesIn(files, (text) => secrets?.isReference(text) ?? false)
    return references.length === 0 || secrets === undefined
      ? new Map<string, string>()
      : secrets.resolve(references)
  }

  /** `onDisk` is told how many of the files may be on the disk: before each one is written, and when one could not be. */
  const write = async (
    files: readonly EnvFile[],
    onDisk: (count: number) => void = () => {},
  ): Promise<void> => {
    const problem = problemOf(files)
    if (problem !== undefined) throw new SecretsError("bad-input", `files: ${problem}`)
    for (const { path } of files) await checkInside(options, path)
    const values = await valuesOf(files)
    for (const [index, file] of files.entries()) {
      onDisk(index + 1)
      try {
        await writeSecretFile(options, file.path, contentOf(file, values), owner)
      } catch (error) {
        onDisk(index)
        throw error
      }
      await exclude(file.path)
    }
  }

  const exclude = async (path: string): Promise<void> => {
    const result = await runCommand(
      {
        program: "/bin/sh",
        args: ["-c", EXCLUDE, "sh", excludeLine(basename(path))],
        cwd: dirname(path),
        timeoutMs: GIT_MS,
        env: {},
      },
      noMask,
    )
    if (result.exitCode !== 0) {
      log.warn("env-files.not-excluded", { path, why: result.stderr.slice(0, 300) })
    }
  }

  const remove = async (files: readonly EnvFile[]): Promise<readonly string[]> => {
    const paths = files.map(({ path }) => path)
    if (paths.length === 0) return []
    await runCommand(
      {
        program: "rm",
        args: ["-f", "--", ...paths.map((path) => `./${path}`)],
        cwd: undefined,
        timeoutMs: GIT_MS,
        env: {},
      },
      noMask,
    )
    return paths
  }

  return {
    apply: async (files) => {
      const before = remembered()
      // Known before it is there: what no one knows of is not removed before a snapshot.
      await write(files, (count) => {
        const now = files.slice(0, count)
        const others = before.filter(({ path }) => !now.some((one) => one.path === path))
        memory.write(JSON.stringify([...others, ...now]))
      })
      const kept = new Set(files.map(({ path }) => path))
      await remove(before.filter(({ path }) => !kept.has(path)))
      memory.write(JSON.stringify(files))
      return [...kept]
    },
    applyAgain: async () => {
      const files = remembered()
      if (files.length > 0) await write(files)
    },
    hide: () => remove(remembered()),
    scrub: async () => {
      const removed = await remove(remembered())
      memory.write("[]")
      return removed
    },
  }
}
