/** The committed generated files are up to date. */
import { describe, expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { generatedDocs } from "../../docs/build.ts"
import { generatedCatalogue } from "../../src/runner/opencode/config/catalogue-build.ts"
import { generatedTools } from "../../tools/build.ts"

const root = join(import.meta.dir, "../..")

const stale = async (folder: string, files: ReadonlyMap<string, string>): Promise<string[]> => {
  const outdated = await Promise.all(
    [...files].map(async ([name, text]) => {
      const found = await Bun.file(join(root, folder, name))
        .text()
        .catch(() => undefined)
      return found === text ? [] : [name]
    }),
  )
  return outdated.flat()
}

describe("generated files", () => {
  test("the generated tools are up to date (else run: bun tools/build.ts)", async () => {
    expect(await stale("opencode-config", await generatedTools())).toEqual([])
  })

  test("the generated model catalogue is that of the pinned OpenCode (else run: bun src/runner/opencode/config/catalogue-build.ts)", async () => {
    const catalogue = new Map([["catalogue.ndjson", await generatedCatalogue()]])
    expect(await stale("src/runner/opencode/config", catalogue)).toEqual([])
  })

  test("the generated docs are up to date (else run: bun docs/build.ts)", async () => {
    expect(await stale("docs", generatedDocs())).toEqual([])
  })

  test("the folder of the tools contains only tools, because OpenCode loads every file there", async () => {
    const stubs = [...(await generatedTools()).keys()].filter((path) => path.startsWith("tools/"))
    const found = await readdir(join(root, "opencode-config/tools"))
    expect(found.map((name) => `tools/${name}`).toSorted()).toEqual(stubs.toSorted())
    expect(found).toHaveLength(70)
  })

  test("the bundle of the tools imports only built-in modules", async () => {
    const bundle = await Bun.file(join(root, "opencode-config/lib/tools.js")).text()
    const imports = new Bun.Transpiler({ loader: "js" }).scanImports(bundle).map(({ path }) => path)
    expect(imports.filter((path) => !/^(node:|child_process|fs|path|os|bun)/.test(path))).toEqual(
      [],
    )
  })
})
