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

test.each(documents)("every relative link of %s leads to a file", async (file) => {
  const links = [...(await textOf(file)).matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)]
  const missing = links
    .map(([, target]) => target ?? "")
    .filter((target) => !existsSync(join(root, dirname(file), target)))
  expect(missing).toEqual([])
})
