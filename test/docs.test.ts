/** The paths and links in the documents exist: a renamed file must be renamed in the documents too. */
import { expect, test } from "bun:test"
import { Glob } from "bun"
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"

const root = join(import.meta.dir, "..")
const documents = ["*.md", "bench/*.md", "docs/**/*.md", "tools/*.md"]
  .flatMap((pattern) => [...new Glob(pattern).scanSync(root)])
  // The changelog keeps the paths of its time.
  .filter((file) => file !== "CHANGELOG.md")
  .toSorted()

const textOf = (file: string): Promise<string> => Bun.file(join(root, file)).text()

/** Placeholders (`<name>`), globs and braces are not paths of one file. */
const pathsIn = (text: string): readonly string[] =>
  [
    ...text.matchAll(
      /(?<![\w./-])(?:src|test|tools|docs|bench|scripts|skills)\/[^\s`"'()[\]|,;:]+/g,
    ),
  ]
    .map(([path]) => path.replace(/[.]$/, ""))
    .filter((path) => !/[<>*{}]|\.\.\./.test(path))

test.each(documents)("every path that %s names exists", async (file) => {
  const missing = pathsIn(await textOf(file)).filter((path) => !existsSync(join(root, path)))
  expect(missing).toEqual([])
})

test.each(["GITHUB_TOKEN", "GITHUB_TOKENS", "GITHUB_API_URL", "GITHUB_SERVER_URL", "REDIS_URL"])(
  "the table of variables in docs/deploy.md explains %s",
  async (name) => {
    const rows = (await textOf("docs/deploy.md")).split("\n").map((line) => line.split("|")[1])
    expect(rows.some((cell) => cell?.includes(`\`${name}\``))).toBe(true)
  },
)

/** What stands between backticks, without code blocks. */
const spansOf = (text: string): readonly string[] =>
  [...text.replace(/```[\s\S]*?```/g, "").matchAll(/`([^`\n]+)`/g)].map(([, span = ""]) => span)

const projectFiles = (): readonly string[] => {
  const { stdout } = Bun.spawnSync(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    {
      cwd: root,
    },
  )
  return stdout.toString().trim().split("\n")
}

test.each(documents)("every source file that %s names by its end exists", async (file) => {
  const files = projectFiles()
  const named = spansOf(await textOf(file)).filter((span) =>
    /^[\w.-][\w./-]*\.(?:ts|tsx|mjs)$/.test(span),
  )
  const missing = named.filter((span) => !files.some((path) => `/${path}`.endsWith(`/${span}`)))
  expect(missing).toEqual([])
})

/** `NAME_OF_A_VARIABLE`, `nameOfAFunction`, `nameOfAFunction(x)`. */
const NAME = /^(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+[A-Z]\w*)(?=\(.*\)$|$)/

test("every variable and every identifier that the documents name exists in the code", async () => {
  const isCode = (path: string) =>
    /\.(?:tsx?|mjs|sh|json|jsonc|ya?ml)$|(?:^|\/)(?:Dockerfile|run|boot)$/.test(path) &&
    !path.startsWith("test/fixtures/")
  const files = projectFiles().filter((path) => isCode(path) && existsSync(join(root, path)))
  const code = (await Promise.all(files.map(textOf))).join("\n")
  const unknown: string[] = []
  for (const document of documents)
    for (const span of spansOf(await textOf(document))) {
      const [name] = NAME.exec(span) ?? []
      if (name !== undefined && !code.includes(name)) unknown.push(`${document}: ${name}`)
    }
  expect(unknown).toEqual([])
})

test.each(documents)("every relative link of %s leads to a file", async (file) => {
  const links = [...(await textOf(file)).matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)]
  const missing = links
    .map(([, target]) => target ?? "")
    .filter((target) => !existsSync(join(root, dirname(file), target)))
  expect(missing).toEqual([])
})
