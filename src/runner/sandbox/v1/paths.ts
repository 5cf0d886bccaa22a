/** Reads the path of a request: names below the workspace, or a refusal. Pure: links are the opener's concern. */
import { invalid } from "./problem.ts"

const LONGEST_PATH = 4096
const LONGEST_NAME = 255

/**
 * The names from the workspace to the file. A relative path starts at the workspace; an absolute path must be below it.
 * `..` is refused everywhere, because its meaning depends on links.
 */
export const namesBelow = (root: string, path: string): readonly string[] => {
  if (Buffer.byteLength(path) > LONGEST_PATH) {
    throw invalid(`the path is longer than ${LONGEST_PATH} bytes`)
  }
  if (path.includes("\0")) throw invalid("the path contains a NUL character")
  if (!path.isWellFormed()) throw invalid("the path is not valid Unicode")
  const names = relativePart(root, path)
    .split("/")
    .filter((name) => name !== "" && name !== ".")
  for (const name of names) {
    if (name === "..") throw invalid(`the path ${path} contains "..": name the file directly`)
    if (Buffer.byteLength(name) > LONGEST_NAME) {
      throw invalid(`a name in the path is longer than ${LONGEST_NAME} bytes`)
    }
  }
  return names
}

const relativePart = (root: string, path: string): string => {
  if (!path.startsWith("/")) return path
  if (path === root || root === "/") return path.slice(root.length)
  if (path.startsWith(`${root}/`)) return path.slice(root.length + 1)
  throw invalid(`${path} is outside the workspace ${root}`)
}

export const pathOf = (root: string, names: readonly string[]): string =>
  names.length === 0 ? root : `${root === "/" ? "" : root}/${names.join("/")}`
