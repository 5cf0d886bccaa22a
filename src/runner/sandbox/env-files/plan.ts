/** What env files contain and where they lie, decided before any of them is written. */
import { posix } from "node:path"

export interface EnvFile {
  /** Relative to the workspace. */
  readonly path: string
  /** Variable name to a secret reference or a plain text. */
  readonly variables: Readonly<Record<string, string>>
}

const MOST_PATH_BYTES = 4095
const MOST_NAME_BYTES = 255

/** A line break would be two lines of git's exclude file, and the file would be committed. */
const isPlainPath = (path: string): boolean =>
  !/\p{Cc}/u.test(path) &&
  Buffer.byteLength(path) <= MOST_PATH_BYTES &&
  path.split("/").every((name) => Buffer.byteLength(name) <= MOST_NAME_BYTES)

/** The reason why these files cannot be written, if there is one. */
export const problemOf = (files: readonly EnvFile[]): string | undefined => {
  const paths = files.map(({ path }) => posix.normalize(path))
  const odd = paths.find((path) => !isPlainPath(path))
  if (odd !== undefined)
    return `${JSON.stringify(odd.slice(0, 100))} has control characters or is too long for the name of a file`
  const outside = paths.find((path) => posix.isAbsolute(path) || path.split("/").includes(".."))
  if (outside !== undefined) return `${outside} lies outside the workspace`
  const inGit = paths.find((path) => path.split("/").includes(".git"))
  if (inGit !== undefined) return `${inGit} lies in git's own directory`
  const noFile = paths.find((path) => path === "." || path.endsWith("/"))
  if (noFile !== undefined) return `${noFile} is a folder`
  const twice = paths.find((path, index) => paths.indexOf(path) !== index)
  if (twice !== undefined) return `${twice} is named twice`
  return files
    .flatMap(({ path, variables }) =>
      Object.entries(variables).map(([name, value]) =>
        value.includes("\0") ? `${path}: ${name} contains a zero byte` : undefined,
      ),
    )
    .find((problem) => problem !== undefined)
}

/** The references among the values, each once. */
export const referencesIn = (
  files: readonly EnvFile[],
  isReference: (text: string) => boolean,
): readonly string[] => [
  ...new Set(files.flatMap(({ variables }) => Object.values(variables).filter(isReference))),
]

/** The text of one file. Values are quoted as shells and dotenv libraries read them. */
export const contentOf = ({ variables }: EnvFile, values: ReadonlyMap<string, string>): string =>
  Object.entries(variables)
    .map(([name, value]) => `${name}=${quoted(values.get(value) ?? value)}\n`)
    .join("")

/** Single quotes keep everything but a single quote itself, for which double quotes are used. */
const quoted = (value: string): string => {
  if (/^[\w./:@%+,=-]*$/.test(value)) return value
  if (!value.includes("'")) return `'${value}'`
  return `"${value.replace(/[\\"$`]/g, (character) => `\\${character}`)}"`
}

/** The line of git's exclude file that matches exactly this path of the repository. */
export const excludeLine = (path: string): string =>
  `/${path.replace(/[\\*?[ #!]/g, (character) => `\\${character}`)}`
