/** The map of the sandbox's own operations: complete by its type, and the documented error without a source of secrets. */
import { createTestServices } from "./services/kit.ts"
import { afterAll, beforeAll, expect, test } from "bun:test"
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { execa } from "execa"
import { createSandboxOperations } from "../../../src/runner/sandbox/operations.ts"
import { createTunnels } from "../../../src/runner/sandbox/tunnels.ts"
import { operations } from "../../../src/wire/operations/index.ts"

const root = join(import.meta.dir, "../../..")
let copy: string

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "sandbox-operations-"))
  await cp(join(root, "src"), join(copy, "src"), { recursive: true })
  await cp(join(root, "package.json"), join(copy, "package.json"))
  await symlink(join(root, "node_modules"), join(copy, "node_modules"))
  const { compilerOptions } = JSON.parse(await readFile(join(root, "tsconfig.json"), "utf8")) as {
    readonly compilerOptions: unknown
  }
  const files = ["src/runner/sandbox/operations.ts"]
  await writeFile(join(copy, "tsconfig.json"), JSON.stringify({ compilerOptions, files }))
})

const services = createTestServices()

afterAll(async () => {
  await services.end()
  await rm(copy, { recursive: true, force: true })
})

const compile = async (): Promise<string> => {
  const { stdout } = await execa(join(root, "node_modules/.bin/tsc"), ["-p", copy], {
    reject: false,
  })
  return stdout
}

const entry = `
  sandboxOperation({
    name: "paint-tunnel",
    method: "POST",
    path: "/api/tunnels/:name/paint",
    doc: "Paint a tunnel.",
    tools: { none: "only for a test" },
    input: z.object({ name: text("The tunnel's name") }),
    output: ok,
  }),
`

test("a sandbox operation in the table without a handler does not compile", async () => {
  const table = join(copy, "src/wire/operations/tunnels.ts")
  const text = await readFile(table, "utf8")
  const start = "export const operations = ["
  expect(text).toContain(start)
  await writeFile(table, text.replace(start, `${start}${entry}`))
  const errors = await compile()
  // The rest of the copy compiles: the only error is the missing handler.
  expect(errors.match(/error TS\d+/g)).toHaveLength(1)
  expect(errors).toContain("src/runner/sandbox/operations.ts")
  expect(errors).toContain('"paint-tunnel"')
}, 180_000)

const handlers = createSandboxOperations({
  secrets: undefined,
  tunnels: createTunnels({
    load: () => undefined,
    save: () => {},
    reserved: () => new Map(),
    announce: () => {},
  }),
  isListening: async () => true,
  services: services.ports,
  workspace: undefined,
})

test("every sandbox operation of the table has a handler", () => {
  const names = operations.filter(({ served }) => served.by === "sandbox").map(({ name }) => name)
  expect(Object.keys(handlers).toSorted()).toEqual(names.toSorted())
})

test("without a source of secrets the handlers of secrets reject with the documented error", async () => {
  const input = { command: "true", env: {} }
  expect(handlers["secret-list"]({})).rejects.toMatchObject({
    status: 501,
    code: "not-implemented",
    message: "this sandbox has no secrets",
  })
  expect(handlers["secret-run"](input)).rejects.toMatchObject({ status: 501 })
  expect(await handlers["list-tunnels"]({})).toEqual({ tunnels: [] })
})
