/**
 * The files of `npm run test:fast`: those that start no program. A file is left out if it, or a file of `test` that it imports,
 * has a way to start one. `no-programs.ts` checks the rest while they run.
 */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { filesMatching, repositoryRoot, SUITES } from "./suites.ts"

/** The program under test starts another one: git, a shell. */
const STARTS_PROGRAMS: readonly string[] = [
  "test/fleet/providers/contract.test.ts",
  "test/fleet/providers/local-layers.test.ts",
  "test/runner/gateway/api-terminal.test.ts",
  "test/runner/gateway/terminals.test.ts",
  "test/runner/gateway/work-meter.test.ts",
  "test/runner/join-services.test.ts",
  "test/runner/opencode/config/check-code.test.ts",
  "test/runner/prompt/audio.test.ts",
  "test/runner/sandbox/secrets-onepassword.test.ts",
]

const STARTS =
  /Bun\.spawn|Bun\.\$|child_process|\bexeca\b|miniflare|playwright|\brunToEnd\b|\brunCommand\b|new Worker\(|createDaemon|requireBinary/
const IMPORT = /(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g

const textOf = (file: string): string => {
  const path = join(repositoryRoot, file)
  return existsSync(path) ? readFileSync(path, "utf8") : ""
}

const startsPrograms = (file: string): boolean => {
  const seen = new Set<string>()
  const waiting = [file]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (seen.has(next) || !next.startsWith("test/")) continue
    seen.add(next)
    const text = textOf(next)
    if (STARTS.test(text)) return true
    for (const [, target = ""] of text.matchAll(IMPORT))
      waiting.push(normalize(join(dirname(next), target)))
  }
  return false
}

export const fastFiles = (): readonly string[] =>
  filesMatching(SUITES.test.together).filter(
    (file) => !STARTS_PROGRAMS.includes(file) && !startsPrograms(file),
  )
