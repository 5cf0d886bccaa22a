/** The import rules, read from the source: what breaks one is named in a sentence. */
import { describe, expect, test } from "bun:test"
import { Glob } from "bun"
import { dirname, join, normalize } from "node:path"

const root = join(import.meta.dir, "..")

interface Import {
  readonly from: string
  readonly to: string
}

const sources = [...new Glob("src/**/*.ts").scanSync(root)].toSorted()
const transpiler = new Bun.Transpiler({ loader: "ts" })

/** Type imports bind nothing at run time, but they bind ideas: they count like any other. */
const importsOf = async (file: string): Promise<readonly Import[]> => {
  const text = await Bun.file(join(root, file)).text()
  const paths = [...text.matchAll(/^(?:import|export)\b[^"']*?from\s+"([^"]+)"/gms)].map(
    (match) => match[1] ?? "",
  )
  const dynamic = transpiler.scanImports(text).map(({ path }) => path)
  return [...new Set([...paths, ...dynamic])].map((path) => ({
    from: file,
    to: path.startsWith(".") ? normalize(join(dirname(file), path)) : path,
  }))
}

const imports = (await Promise.all(sources.map(importsOf))).flat()

const pure = (file: string): boolean =>
  /^src\/(wire|runner\/turn|runner\/gateway\/http)\//.test(file) ||
  file.endsWith("-state.ts") ||
  [
    "events/events",
    "events/event-schemas",
    "events/parse-event",
    "config/mcp",
    "config/compose-config",
    "config/models",
    "client/types",
  ].includes(/^src\/runner\/opencode\/(.*)\.ts$/.exec(file)?.[1] ?? "") ||
  file === "src/runner/prompt/prompt-body.ts" ||
  file.startsWith("src/hub/session/")

/** The layer a file is in; a file imports its own layer's folder and lower layers. */
const layers: readonly (readonly [RegExp, number])[] = [
  [/^src\/(lib|settings)\//, 0],
  [/^src\/wire\/|^src\/runner\/opencode\/events\/(events|event-schemas|parse-event)\.ts/, 1],
  [
    /^src\/runner\/(turn|gateway\/http)\/|-state\.ts$|^src\/runner\/opencode\/(config\/(compose-config|mcp|models)|client\/types)\.ts|^src\/runner\/prompt\/prompt-body\.ts|^src\/hub\/session\//,
    2,
  ],
  [/^src\/runner\/(link|opencode|prompt|host)\/|^src\/demo\//, 3],
  [/^src\/runner\/(channels|commands|gateway|sandbox|workflow)\/|^src\/hub\//, 4],
  [/^src\/(runner\/daemon\.ts|cli\/|main\.ts)/, 5],
]

const layerOf = (file: string): number => {
  const layer = layers.find(([shape]) => shape.test(file))?.[1]
  if (layer === undefined)
    throw new Error(`${file} is in no layer: give its folder a place in this test`)
  return layer
}

const folderOf = (file: string): string => file.split("/").slice(0, 3).join("/")

describe("who may import whom", () => {
  test("every source file has a layer", () => {
    for (const file of sources) expect(layerOf(file)).toBeNumber()
  })

  test("a layer imports only itself and what is below it", () => {
    const wrong = imports
      .filter(({ to }) => to.startsWith("src/"))
      .filter(({ from, to }) => layerOf(to) > layerOf(from))
      .map(
        ({ from, to }) => `${from} (layer ${layerOf(from)}) imports ${to} (layer ${layerOf(to)})`,
      )
    expect(wrong).toEqual([])
  })

  test("the edges know nothing of one another", () => {
    const edges = ["link", "opencode", "prompt", "host"].map((name) => `src/runner/${name}`)
    const wrong = imports
      .filter(({ from, to }) => edges.includes(folderOf(from)) && edges.includes(folderOf(to)))
      .filter(({ from, to }) => folderOf(from) !== folderOf(to))
      // What is pure is no edge: anyone may use it.
      .filter(({ to }) => !pure(to))
      .map(({ from, to }) => `${from} imports ${to}: edges are joined in daemon.ts`)
    expect(wrong).toEqual([])
  })

  test("what is pure imports no runtime", () => {
    const wrong = imports
      .filter(({ from }) => pure(from))
      .filter(({ to }) => /^(node:|bun$|bun:|hono|ws$|execa|eventsource-parser)/.test(to))
      .map(({ from, to }) => `${from} is pure and imports ${to}`)
    expect(wrong).toEqual([])
  })

  test("what is pure has no clock, no timer, no randomness", async () => {
    for (const file of sources.filter(pure)) {
      const text = await Bun.file(join(root, file)).text()
      const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")
      const found =
        /Date\.now|new Date\(|setTimeout|setInterval|Math\.random|crypto\.|process\.|Bun\./.exec(
          code,
        )
      expect(found?.[0] === undefined ? "" : `${file} uses ${found[0]}`).toBe("")
    }
  })
})

describe("the tools, which run in OpenCode", () => {
  test("know the operations and nothing else of ours, and need nothing installed but zod", async () => {
    const files = [...new Glob("tools/**/*.ts").scanSync(root)]
    const wrong = (await Promise.all(files.map(importsOf)))
      .flat()
      .filter(({ to }) => !/^(tools|src\/wire\/operations)\/|^zod$|^node:/.test(to))
      .map(({ from, to }) => `${from} imports ${to}`)
    expect(wrong).toEqual([])
  })
})

describe("things done in one place", () => {
  const usersOf = async (shape: RegExp): Promise<readonly string[]> => {
    const users: string[] = []
    for (const file of sources) {
      const text = await Bun.file(join(root, file)).text()
      if (shape.test(text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ""))) users.push(file)
    }
    return users
  }

  test("only main.ts ends the process", async () => {
    expect(await usersOf(/process\.exit\b/)).toEqual(["src/main.ts"])
  })

  test("only main.ts hands the environment to config.ts, and nobody else reads it", async () => {
    expect(await usersOf(/process\.env|Bun\.env/)).toEqual(["src/main.ts"])
  })

  test("nobody writes to the console", async () => {
    expect(await usersOf(/console\./)).toEqual([])
  })

  test("no module keeps state of its own: two runners live in one process", async () => {
    const stateful: string[] = []
    for (const file of sources) {
      const text = await Bun.file(join(root, file)).text()
      if (/^(export )?let /m.test(text)) stateful.push(file)
    }
    expect(stateful).toEqual([])
  })
})
