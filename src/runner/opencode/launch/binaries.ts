/** Finds the programs that the agent needs: OpenCode's binary (behind npm's wrapper script) and ripgrep. */
import { accessSync, constants, realpathSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"

class MissingProgramError extends Error {
  override readonly name = "MissingProgramError"
}

export interface BinarySearch {
  /** OPENCODE_BIN: used without a search. */
  readonly opencodeBin?: string | undefined
  readonly path: string
  /** Path of this program; packages installed beside it are found without PATH. */
  readonly self: string
}

export const findOpenCode = ({ opencodeBin, path, self }: BinarySearch): string => {
  if (opencodeBin !== undefined) {
    if (isExecutable(opencodeBin)) return opencodeBin
    throw new MissingProgramError(`OPENCODE_BIN: ${opencodeBin} is not an executable file`)
  }
  const beside = join(dirname(self), "..", "node_modules")
  const found = findOnPath("opencode", path)
  // npm's `opencode` may be a script that swallows signals; the platform package beside it holds the binary.
  const packages = [beside, ...(found ? [join(dirname(realpathSync(found)), "..", "..")] : [])]
  const binary = packages
    .map((folder) => join(folder, platformPackage(), "bin", "opencode"))
    .find(isExecutable)
  if (binary ?? found) return binary ?? found ?? ""
  throw new MissingProgramError(
    "OpenCode is not installed: put `opencode` on PATH (npm install -g opencode-ai) or set OPENCODE_BIN",
  )
}

/** PATH, extended by the bundled ripgrep if there is no `rg`: OpenCode's search tools need it. */
export const pathWithRipgrep = ({ path, self }: BinarySearch): string => {
  if (findOnPath("rg", path) !== undefined) return path
  const folder = join(
    dirname(self),
    "../node_modules/@vscode",
    `ripgrep-${process.platform}-${process.arch}`,
    "bin",
  )
  return isExecutable(join(folder, "rg")) ? `${path}${delimiter}${folder}` : path
}

const platformPackage = (): string => `opencode-${process.platform}-${process.arch}`

const findOnPath = (name: string, path: string): string | undefined =>
  path
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find(isExecutable)

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
