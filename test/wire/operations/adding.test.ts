/** Adding an operation takes one entry in one file; everything else is derived from it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { execa } from "execa"
import { z } from "zod"

const root = join(import.meta.dir, "../../..")
let copy: string

const request = `
const countSheep = wireRequest("count-sheep", 7_000, { meadow: z.string() }, { sheep: z.int() })
`
const entry = `
  sessionOperation({
    name: "count-sheep",
    method: "POST",
    path: "/api/sheep/:meadow/count",
    doc: "Count the sheep on a meadow.",
    input: z.object({ meadow: z.string().describe("The meadow") }),
    output: countSheep.result,
    tools: [
      {
        name: "count_sheep",
        description: "Count the sheep.",
        render: ({ sheep }) => \`There are \${sheep} sheep.\`,
      },
    ],
    request: countSheep,
    toFields: unchanged,
    toReply: unchanged,
  }),
`

const probe = `
import { createApi } from "./src/runner/gateway/api.ts"
import { openApi } from "./src/wire/operations/openapi.ts"
import { operations } from "./src/wire/operations/index.ts"
import { requestDeadlineMs, requestFrame } from "./src/wire/frames/index.ts"
import { renderApi } from "./docs/render/api.ts"
import { renderProtocol } from "./docs/render/protocol.ts"
import { renderTools } from "./docs/render/tools.ts"
import { generatedTools } from "./tools/build.ts"
import { tools } from "./tools/index.ts"

const asked = []
const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log }
const api = createApi({
  request: async (type, fields) => (asked.push({ type, ...fields }), { sheep: 12 }),
  notify() {}, sandbox: {}, tickets: {}, log, now: Date.now,
})
const serve = Bun.serve({ port: 0, fetch: api.fetch })
process.env.SANDPIPER_URL = "http://127.0.0.1:" + serve.port
process.env.SANDPIPER_API_TOKEN = "t"
const context = { sessionID: "s", messageID: "m", callID: "c", abort: AbortSignal.timeout(5000), metadata() {} }
const reads = await tools.count_sheep.execute({ meadow: "up hill" }, context)
console.log(JSON.stringify({
  asked, reads,
  frame: requestFrame("count-sheep", "r1", { meadow: "x" }),
  deadline: requestDeadlineMs("count-sheep"),
  docs: [renderApi(operations), renderProtocol(), renderTools(tools, {})].map((text) => text.includes("count")),
  openApi: Object.keys(openApi(operations).paths).includes("/api/sheep/{meadow}/count"),
  stub: (await generatedTools()).has("tools/count_sheep.ts"),
}))
process.exit(0)
`

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "adding-"))
  for (const name of ["src", "tools", "docs", "package.json", "tsconfig.json"]) {
    await cp(join(root, name), join(copy, name), { recursive: true })
  }
  await mkdir(join(copy, "test"))
  await symlink(join(root, "node_modules"), join(copy, "node_modules"))
})

afterAll(() => rm(copy, { recursive: true, force: true }))

test("one new table entry adds the route, the request, its deadline, the tool, its file and the docs", async () => {
  const file = join(copy, "src/wire/operations/personas.ts")
  const text = await readFile(file, "utf8")
  await writeFile(
    file,
    text
      .replace("\nexport const requests = [", `${request}\nexport const requests = [countSheep, `)
      .replace("export const operations = [", `export const operations = [${entry}`),
  )
  await writeFile(join(copy, "probe.ts"), probe)
  const { stdout } = await execa(process.execPath, ["probe.ts"], { cwd: copy })
  const seen = z.record(z.string(), z.unknown()).parse(JSON.parse(stdout))
  expect(seen).toEqual({
    asked: [{ type: "count-sheep", meadow: "up hill" }],
    reads: "There are 12 sheep.",
    frame: { type: "count-sheep", requestId: "r1", meadow: "x" },
    deadline: 7000,
    docs: [true, true, true],
    openApi: true,
    stub: true,
  })
})
