/** Writes the documents that are generated from the tables of operations, tools and frames. */
import { join } from "node:path"
import { operations } from "../src/wire/operations/index.ts"
import { effects } from "../test/whole/effects.ts"
import { tools } from "../tools/index.ts"
import { renderApi } from "./render/api.ts"
import { renderProtocol } from "./render/protocol.ts"
import { renderTools } from "./render/tools.ts"

/** File name in this folder to file content. */
export const generatedDocs = (): ReadonlyMap<string, string> =>
  new Map([
    ["api.md", renderApi(operations)],
    ["tools.md", renderTools(tools, effects)],
    ["protocol.md", renderProtocol()],
  ])

if (import.meta.main) {
  for (const [name, text] of generatedDocs()) await Bun.write(join(import.meta.dir, name), text)
}
