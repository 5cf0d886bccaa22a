/**
 * Generates the files that OpenCode loads: one stub per tool and the bundle that all stubs import. The bundle contains
 * all dependencies, so the first prompt does not wait for an install.
 */
import { mkdir, readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { tools } from "./index.ts"

const root = join(import.meta.dir, "..")

/** Path below opencode-config to file content. OpenCode loads every file in `tools/` as a tool, so only stubs go there. */
export const generatedTools = async (): Promise<ReadonlyMap<string, string>> => {
  const built = await Bun.build({
    entrypoints: [join(import.meta.dir, "index.ts")],
    target: "bun",
    format: "esm",
    minify: true,
  })
  const [bundle] = built.outputs
  if (!bundle)
    throw new Error(
      `the bundle of the tools was not built: ${built.logs.map(({ message }) => message).join("; ")}`,
    )
  const stubs = Object.keys(tools)
    .toSorted()
    .map((name) => [`tools/${name}.ts`, stubOf(name)] as const)
  return new Map([...stubs, ["lib/tools.js", await bundle.text()]])
}

const stubOf = (name: string): string =>
  `import { tools } from "../lib/tools.js"\n\nexport default tools.${name}\n`

const write = async (): Promise<void> => {
  const target = join(root, "opencode-config")
  const files = await generatedTools()
  await Promise.all(
    ["tools", "lib"].map((folder) => mkdir(join(target, folder), { recursive: true })),
  )
  for (const folder of ["tools", "lib"]) {
    for (const name of await readdir(join(target, folder))) {
      if (!files.has(`${folder}/${name}`)) await rm(join(target, folder, name))
    }
  }
  for (const [path, text] of files) await Bun.write(join(target, path), text)
}

if (import.meta.main) await write()
