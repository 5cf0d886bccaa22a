/** Which test files belong to which command, and how many of them run at a time. */
import { Glob } from "bun"
import { join } from "node:path"

export const repositoryRoot = join(import.meta.dir, "../..")

export interface Suite {
  /** Run side by side. */
  readonly together: readonly string[]
  readonly workers: number
  /** Run one at a time after the others: they load the whole machine or look at all of it. */
  readonly alone?: readonly string[]
  /** The limit of one test. */
  readonly timeoutMs: number
  /** A script that installs what only this suite needs. */
  readonly install?: string
}

const TIMEOUT_MS = 120_000

export const SUITES = {
  test: { together: ["test/**/*.test.ts"], workers: 4, timeoutMs: TIMEOUT_MS },
  whole: {
    together: ["test/whole/*.whole.ts"],
    workers: 2,
    timeoutMs: TIMEOUT_MS,
    install: "test/whole/install.ts",
  },
  stack: {
    together: [],
    workers: 1,
    alone: ["test/stack/*.stack.ts"],
    timeoutMs: TIMEOUT_MS,
    install: "test/stack/install.ts",
  },
  soak: {
    together: ["test/soak/*.soak.ts"],
    workers: 3,
    alone: ["test/soak/alone/*.soak.ts"],
    timeoutMs: TIMEOUT_MS,
  },
  attack: {
    together: [],
    workers: 1,
    alone: ["test/attack/*.attack.ts", "test/security/gateway-flood.test.ts"],
    timeoutMs: 600_000,
  },
} as const satisfies Record<string, Suite>

/** The suite of this name with everything that it needs installed. An unknown name is an error. */
export const prepareSuite = async (name: string): Promise<Suite> => {
  const suites: Readonly<Record<string, Suite>> = SUITES
  const suite = suites[name]
  if (!suite) throw new Error(`unknown suite ${name}: use one of ${Object.keys(SUITES).join(", ")}`)
  if (suite.install === undefined) return suite
  const install = Bun.spawn([process.execPath, suite.install], {
    cwd: repositoryRoot,
    stdio: ["ignore", "inherit", "inherit"],
  })
  if ((await install.exited) !== 0) throw new Error(`${suite.install} failed`)
  return suite
}

/** Files that start many programs or browsers take longest. They begin first, so that none of them is left for the end. */
const LONG_FIRST = ["test/e2e/", "test/hub/hosts/", "test/security/", "test/cli/", "test/fleet/"]

const rank = (file: string): number => {
  const found = LONG_FIRST.findIndex((folder) => file.startsWith(folder))
  return found === -1 ? LONG_FIRST.length : found
}

/** True for a file that one of the words of the command line names; without words, for every file. */
export const isNamedBy =
  (words: readonly string[]) =>
  (file: string): boolean =>
    words.length === 0 || words.some((word) => file.includes(word.replace(/^\.\//, "")))

export const filesMatching = (patterns: readonly string[]): readonly string[] =>
  [
    ...new Set(
      patterns.flatMap((pattern) => [...new Glob(pattern).scanSync({ cwd: repositoryRoot })]),
    ),
  ]
    .filter((file) => !file.includes("node_modules/"))
    .toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
