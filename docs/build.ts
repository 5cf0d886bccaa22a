/** Writes the documents, or parts of them, that are generated from the tables of operations, tools, frames and access. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { renderAccessTable } from "../src/hub/access/access-docs.ts"
import { operations } from "../src/wire/operations/index.ts"
import { effects } from "../test/whole/effects.ts"
import { tools } from "../tools/index.ts"
import { renderApi } from "./render/api.ts"
import { withFleetRoutes } from "./render/fleet-routes.ts"
import { renderProtocol } from "./render/protocol.ts"
import { renderTools } from "./render/tools.ts"

/** File name in this folder to file content. */
export const generatedDocs = (): ReadonlyMap<string, string> =>
  new Map([
    ["api.md", renderApi(operations)],
    ["tools.md", renderTools(tools, effects)],
    ["protocol.md", renderProtocol()],
    ["clients.md", withAccessTable(readFileSync(join(import.meta.dir, "clients.md"), "utf8"))],
    ["deploy.md", withFleetRoutes(readFileSync(join(import.meta.dir, "deploy.md"), "utf8"))],
  ])

const START = "<!-- Generated from src/hub/access/table.ts by docs/build.ts -->"

/** The rest of this document is written by hand; everything after the marker is generated. */
const withAccessTable = (text: string): string => {
  const end = text.indexOf(START)
  if (end === -1) throw new Error(`docs/clients.md has no line ${START}`)
  return `${text.slice(0, end)}${START}\n\n${renderAccessTable()}`
}

if (import.meta.main) {
  for (const [name, text] of generatedDocs()) await Bun.write(join(import.meta.dir, name), text)
}
