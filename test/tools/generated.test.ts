/** What is generated is committed, and is what the tables say now. */
import { describe, expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { generatedDocs } from "../../docs/build.ts"
import { generatedCatalogue } from "../../src/runner/opencode/config/catalogue-build.ts"
import { generatedTools } from "../../tools/build.ts"

const root = join(import.meta.dir, "../..")

const stale = async (folder: string, files: ReadonlyMap<string, string>): Promise<string[]> => {
  const kept = await Promise.all(
    [...files].map(async ([name, text]) => {
      const found = await Bun.file(join(root, folder, name))
        .text()
        .catch(() => undefined)
      return found === text ? [] : [name]
    }),
  )
  return kept.flat()
}

describe("generated files", () => {
  test("of the tools are fresh, else: bun tools/build.ts", async () => {
    expect(await stale("opencode-config", await generatedTools())).toEqual([])
  })

  test("of the models are those of the pinned OpenCode, else: bun src/runner/opencode/config/catalogue-build.ts", async () => {
    const made = new Map([["catalogue.ndjson", await generatedCatalogue()]])
    expect(await stale("src/runner/opencode/config", made)).toEqual([])
  })

  test("of the docs are fresh, else: bun docs/build.ts", async () => {
    expect(await stale("docs", generatedDocs())).toEqual([])
  })

  test("hold nothing in the tools' folder that is no tool, since OpenCode takes every file there for one", async () => {
    const made = [...(await generatedTools()).keys()].filter((path) => path.startsWith("tools/"))
    const found = await readdir(join(root, "opencode-config/tools"))
    expect(found.map((name) => `tools/${name}`).toSorted()).toEqual(made.toSorted())
    expect(found).toHaveLength(69)
  })

  test("need nothing that is not beside them", async () => {
    const bundle = await Bun.file(join(root, "opencode-config/lib/tools.js")).text()
    const imports = new Bun.Transpiler({ loader: "js" }).scanImports(bundle).map(({ path }) => path)
    expect(imports.filter((path) => !/^(node:|child_process|fs|path|os|bun)/.test(path))).toEqual(
      [],
    )
  })
})
