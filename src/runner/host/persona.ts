/** Persona files: instructions for the agent, written at each start and read by OpenCode at each prompt. */
import { mkdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"

export interface PersonaFile {
  readonly filename: string
  readonly content: string
  readonly sortOrder?: number | undefined
}

export interface RepositoryFacts {
  readonly url: string
  readonly directory: string
  readonly branch?: string | undefined
  readonly ref?: string | undefined
}

/** Resolves to the paths in reading order. */
export const writePersona = async (
  directory: string,
  files: readonly PersonaFile[],
  repositories: readonly RepositoryFacts[],
): Promise<readonly string[]> => {
  const context = repositoryContext(repositories)
  const named = [
    ...(context === undefined ? [] : [{ name: "00-repo-context.md", content: context }]),
    ...nameFiles(files),
  ]
  await rm(directory, { recursive: true, force: true })
  if (named.length === 0) return []
  await mkdir(directory, { recursive: true, mode: 0o755 })
  return Promise.all(
    named.map(async ({ name, content }) => {
      const path = join(directory, name)
      await writeFile(path, content)
      return path
    }),
  )
}

const MAX_NAME_LENGTH = 100

/** Turns any name into a safe file name without directories; a number makes duplicates distinct. */
export const nameFiles = (
  files: readonly PersonaFile[],
): readonly { readonly name: string; readonly content: string }[] => {
  const ordered = files.toSorted((a, b) => (a.sortOrder ?? 0) - (b.sortOrder ?? 0))
  const taken = new Set<string>(["00-repo-context.md"])
  return ordered.map(({ filename, content, sortOrder = 0 }) => {
    const place = String(Math.max(0, Math.trunc(sortOrder))).padStart(2, "0")
    const stem = `${place}-${safeName(filename)}`
    let name = `${stem}.md`
    for (let again = 2; taken.has(name); again += 1) name = `${stem}-${again}.md`
    taken.add(name)
    return { name, content }
  })
}

const safeName = (filename: string): string => {
  const word = filename
    .replace(/\.md$/i, "")
    .split(/[/\\]/)
    .join("-")
    .replaceAll(/[^\w.-]+/g, "-")
    .replaceAll(/\.{2,}/g, "-")
    .replaceAll(/-{2,}/g, "-")
    .replaceAll(/^[-.]+|[-.]+$/g, "")
    .slice(0, MAX_NAME_LENGTH)
  return word === "" ? "persona" : word
}

const repositoryContext = (repositories: readonly RepositoryFacts[]): string | undefined => {
  if (repositories.length === 0) return undefined
  const lines = repositories.map(({ url, directory, branch, ref }) => {
    const details = [
      ...(branch === undefined ? [] : [`branch ${branch}`]),
      ...(ref === undefined ? [] : [`at ${ref}`]),
    ]
    const more = details.length === 0 ? "" : ` (${details.join(", ")})`
    return `- \`${directory}\` is a clone of ${url}${more}`
  })
  const end =
    "Credentials are set up: git fetch, pull and push work. Commit to a branch of your own."
  return `# Where you work\n\n${lines.join("\n")}\n\n${end}\n`
}
