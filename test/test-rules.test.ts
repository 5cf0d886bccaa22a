/** The rules for tests that a script can check; all of them are in CONTRIBUTING.md. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Glob } from "bun"

const folder = import.meta.dir
const files = [...new Glob("**/*.ts").scanSync({ cwd: folder })]
  .filter((file) => !file.startsWith("node_modules/") && file !== "test-rules.test.ts")
  .map((file) => ({ file, lines: readFileSync(join(folder, file), "utf8").split("\n") }))

/** Every line that matches, with its file and number. `above`: the line before it. */
const linesWhere = (holds: (line: string, above: string) => boolean): readonly string[] =>
  files.flatMap(({ file, lines }) =>
    lines.flatMap((line, index) =>
      holds(line, lines[index - 1] ?? "") ? [`${file}:${index + 1}: ${line.trim()}`] : [],
    ),
  )

const WAITS = /\bBun\.sleep(Sync)?\(|new Promise\(.*\bsetTimeout\(/

test("every sleep of a test says in the line above why it is one", () => {
  const silent = linesWhere(
    (line, above) =>
      WAITS.test(line) && !line.trimStart().startsWith("//") && !/^\s*\/\/ Sleep: \S/.test(above),
  ).filter((line) => !line.startsWith("kit/until-true.ts:"))
  expect(silent).toEqual([])
})

test("no test waits in a loop of its own: untilTrue and its like print what did not come", () => {
  const loops = linesWhere((line) => /\b(while|for) \(.*\) (await )?Bun\.sleep\(/.test(line))
  expect(loops).toEqual([])
})

test("no server of a test listens on a fixed port", () => {
  const fixed = files.flatMap(({ file, lines }) => {
    const text = lines.join("\n")
    return [
      ...text.matchAll(/\.listen\(\s*[1-9]\d+|Bun\.(serve|listen)\([^)]{0,200}?\bport: [1-9]\d+/g),
    ].map(([match]) => `${file}: ${match.replaceAll(/\s+/g, " ")}`)
  })
  expect(fixed).toEqual([])
})
