/** Files that OpenCode would import are imported in a separate process first. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { checkCode } from "../../../../src/runner/opencode/config/check-code.ts"

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tools-"))
})
afterAll(() => rm(folder, { recursive: true }))

const check = async (files: Record<string, string>) => {
  for (const [name, text] of Object.entries(files)) await Bun.write(join(folder, name), text)
  const code = Object.keys(files).map((name) => ({ path: join(folder, name), isTool: true }))
  const problems = await checkCode(code, { runtime: process.execPath, owner: undefined })
  return Object.fromEntries(
    [...problems].map(([path, problem]) => [path.slice(folder.length + 1), problem]),
  )
}

const good = `export default { description: "d", args: {}, execute: async () => "x" }`

test("valid tools pass, and a check that cannot start a process finds no problem", async () => {
  expect(await check({ "good.js": good, "typed.ts": `const x: string = "y"\n${good}` })).toEqual({})
  const nowhere = { runtime: "/nowhere", owner: undefined }
  expect(await checkCode([], nowhere)).toEqual(new Map())
  expect(await checkCode([{ path: "/x.js", isTool: true }], nowhere)).toEqual(new Map())
})

test("a bunfig.toml in the working directory has no effect on the check", async () => {
  await Bun.write(join(folder, "bunfig.toml"), 'preload = ["./preload.js"]\n')
  await Bun.write(join(folder, "preload.js"), 'require("node:fs").writeFileSync("ran", "yes")')
  const before = process.cwd()
  process.chdir(folder)
  try {
    expect(await check({ "good.js": good })).toEqual({})
  } finally {
    process.chdir(before)
  }
  expect(await Bun.file(join(folder, "ran")).exists()).toBe(false)
})

test("each broken file is reported with its problem, and the others pass", async () => {
  const problems = await check({
    "a_good.js": good,
    "b_syntax.js": "export default {",
    "c_import.js": `import "no-such-package"\n${good}`,
    "d_throws.js": `throw new Error("at load")`,
    "e_shape.js": `export const helper = () => 1\n${good}`,
    "f_empty.js": "",
    "g_good.js": good,
  })
  expect(Object.keys(problems).toSorted()).toEqual([
    "b_syntax.js",
    "c_import.js",
    "d_throws.js",
    "e_shape.js",
    "f_empty.js",
  ])
  expect(problems["d_throws.js"]).toContain("at load")
  expect(problems["e_shape.js"]).toContain("helper")
})

test("a file that ends the process is reported, and the files after it are still checked", async () => {
  const problems = await check({
    "a_exit.js": `process.exit(3)`,
    "b_broken.js": "throw 1",
    "c_good.js": `setInterval(() => {}, 1000)\n${good}`,
  })
  expect(Object.keys(problems).toSorted()).toEqual(["a_exit.js", "b_broken.js"])
  expect(problems["a_exit.js"]).toContain("code 3")
})
