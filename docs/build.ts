/** Writes the documents that are made from the tables. */
import { join } from "node:path"
import { operations } from "../src/wire/operations/index.ts"
import { tools } from "../tools/index.ts"
import { renderApi } from "./render/api.ts"
import { renderProtocol } from "./render/protocol.ts"
import { renderTools } from "./render/tools.ts"

/** Name of the file in this folder -> text. */
export const generatedDocs = (): ReadonlyMap<string, string> =>
  new Map([
    ["api.md", renderApi(operations)],
    ["tools.md", renderTools(tools)],
    ["protocol.md", renderProtocol()],
  ])

if (import.meta.main) {
  for (const [name, text] of generatedDocs()) await Bun.write(join(import.meta.dir, name), text)
}
