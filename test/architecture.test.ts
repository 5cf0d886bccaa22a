/** The import rules of ARCHITECTURE.md, checked on the source. A violation is reported as "A imports B: why not". */
import { describe, expect, test } from "bun:test"
import { Glob } from "bun"
import { dirname, join, normalize } from "node:path"

const root = join(import.meta.dir, "..")

interface Import {
  readonly from: string
  readonly to: string
}

/** The build of the page runs before the binary is compiled and is not in it. */
const sources = [...new Glob("src/**/*.{ts,tsx}").scanSync(root)]
  .filter((file) => file !== "src/hub/page/build.ts")
  .toSorted()
const transpilers = {
  ts: new Bun.Transpiler({ loader: "ts" }),
  tsx: new Bun.Transpiler({ loader: "tsx" }),
}

const withoutComments = (text: string): string => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")
const codeOf = async (file: string): Promise<string> =>
  withoutComments(await Bun.file(join(root, file)).text())

/** Type imports count like any other: they do not exist at run time, but they couple the files. */
const importsOf = async (file: string): Promise<readonly Import[]> => {
  const text = await Bun.file(join(root, file)).text()
  // A doc comment may contain a line that looks like an import.
  const statements = text.replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, "")
  const paths = [...statements.matchAll(/^(?:import|export)\b[^"']*?from\s+"([^"]+)"/gms)].map(
    (match) => match[1] ?? "",
  )
  const dynamic = transpilers[file.endsWith("x") ? "tsx" : "ts"]
    .scanImports(text)

    .map(({ path }) => path)
    // The scan adds the default runtime of JSX, which the build of the page replaces.
    .filter((path) => !/^react(\/|$)/.test(path))
  return [...new Set([...paths, ...dynamic])].map((path) => ({
    from: file,
    to: path.startsWith(".") ? normalize(join(dirname(file), path)) : path,
  }))
}

const imports = (await Promise.all(sources.map(importsOf))).flat()

/** Imports from files that match `from`, except those that match `allowed`. */
const violations = (from: RegExp, allowed: RegExp, why: string): readonly string[] =>
  imports
    .filter((one) => from.test(one.from) && !allowed.test(one.to))
    .map((one) => `${one.from} imports ${one.to}: ${why}`)

/** The rules of access: the session uses them, so they are as pure as the session. */
const PURE_ACCESS =
  /^src\/hub\/access\/(scopes|ownership|principal|author|table|may|budgets|limits)\.ts$/

/** Files without I/O, timers, clock and randomness. */
const isPure = (file: string): boolean =>
  /^src\/(wire|runner\/turn|hub\/session|hub\/view|fleet\/core)\//.test(file) ||
  file === "src/fleet/providers/contract.ts" ||
  /^src\/runner\/gateway\/http\/(?!response\.ts)/.test(file) ||
  file.endsWith("-state.ts") ||
  [
    "events/events",
    "events/event-schemas",
    "events/parse-event",
    "config/mcp",
    "config/compose-config",
    "config/endpoint-config",
    "config/endpoints",
    "config/models",
    "client/types",
  ].includes(/^src\/runner\/opencode\/(.*)\.ts$/.exec(file)?.[1] ?? "") ||
  [
    "src/runner/prompt/prompt-body.ts",
    "src/runner/link/retry-pace.ts",
    "src/runner/broker/upstreams.ts",
    "src/runner/broker/services.ts",
  ].includes(file) ||
  PURE_ACCESS.test(file)

/** The layer of each file. A file may import its own layer and lower layers. */
const layers: readonly (readonly [RegExp, number])[] = [
  [/^src\/(lib|settings)\//, 0],
  [/^src\/wire\/|^src\/runner\/opencode\/events\/(events|event-schemas|parse-event)\.ts/, 1],
  [
    /^src\/runner\/(turn|gateway\/http)\/|-state\.ts$|^src\/runner\/opencode\/(config\/(compose-config|endpoint-config|endpoints|mcp|models)|client\/types)\.ts|^src\/runner\/(prompt\/prompt-body|link\/retry-pace|broker\/(upstreams|services))\.ts|^src\/hub\/(session|view)\/|^src\/hub\/access\/(scopes|ownership|principal|author|table|may|budgets|limits)\.ts$|^src\/fleet\/(core\/|providers\/contract\.ts$)/,
    2,
  ],
  [
    /^src\/runner\/(link|opencode|prompt|host)\/|^src\/demo\/|^src\/fleet\/(providers|store|bridge|files)\//,
    3,
  ],
  [
    /^src\/runner\/(broker|channels|commands|gateway|sandbox|state|workflow)\/|^src\/(hub|fleet)\//,
    4,
  ],
  // The files directly in src/runner create the modules and join them.
  [/^src\/(runner\/[^/]+\.ts$|cli\/|main\.ts$)/, 5],
]

const layerOf = (file: string): number => {
  const layer = layers.find(([shape]) => shape.test(file))?.[1]
  if (layer === undefined) throw new Error(`${file} has no layer: add its folder to this test`)
  return layer
}

const runnerFolderOf = (file: string): string => file.split("/").slice(0, 3).join("/")

describe("imports between the programs", () => {
  test("the contract in src/wire imports only itself and zod", () => {
    expect(violations(/^src\/wire\//, /^src\/wire\/|^zod$/, "the contract needs only zod")).toEqual(
      [],
    )
  })

  test("the runner imports neither the hub nor the fleet", () => {
    const allowed = /^(?!src\/(hub|fleet)\/)/
    expect(violations(/^src\/runner\//, allowed, "the programs share only src/wire")).toEqual([])
  })

  test("the hub imports neither the runner nor the fleet", () => {
    const allowed = /^(?!src\/(runner|fleet)\/)/
    expect(violations(/^src\/hub\//, allowed, "the programs share only src/wire")).toEqual([])
  })

  test("the fleet imports nothing of the runner and at most one file of the hub", () => {
    const allowed = /^(?!src\/runner\/)/
    expect(violations(/^src\/fleet\//, allowed, "the programs share only src/wire")).toEqual([])
    const ports = imports.filter(
      ({ from, to }) => from.startsWith("src/fleet/") && to.startsWith("src/hub/"),
    )
    expect(new Set(ports.map(({ to }) => to)).size).toBeLessThanOrEqual(1)
  })

  test("the page, which runs in a browser, imports itself, the view, the contract with clients and its packages", () => {
    const page = /^src\/hub\/page\//
    const allowed =
      /^src\/hub\/(page|view)\/|^src\/wire\/|^(preact|@preact\/signals|marked|remend|dompurify|highlight\.js|lucide|diff|@xterm\/[\w-]+)(\/|$)/
    expect(violations(page, allowed, "the page runs outside the binary")).toEqual([])
    const others = imports
      .filter(({ to }) => page.test(to))
      .filter(({ from }) => !page.test(from))
      .map(({ from, to }) => `${from} imports ${to}: the page runs in a browser`)
    expect(others).toEqual([])
  })

  test("only main.ts and the commands themselves import src/cli", () => {
    const wrong = imports.filter(
      ({ from, to }) => to.startsWith("src/cli/") && !/^src\/(cli\/|main\.ts$)/.test(from),
    )
    expect(wrong).toEqual([])
  })

  test("the tools, which run in OpenCode, import only the operations, zod and the runtime", async () => {
    const files = [...new Glob("tools/**/*.ts").scanSync(root)]
    const wrong = (await Promise.all(files.map(importsOf)))
      .flat()
      .filter(({ to }) => !/^(tools|src\/wire\/operations)\/|^zod$|^node:/.test(to))
      .map(({ from, to }) => `${from} imports ${to}`)
    expect(wrong).toEqual([])
  })
})

describe("imports between the layers", () => {
  test("every source file belongs to a layer", () => {
    for (const file of sources) expect(layerOf(file)).toBeNumber()
  })

  test("a file imports only its own layer and lower layers", () => {
    const wrong = imports
      .filter(({ to }) => to.startsWith("src/"))
      .filter(({ from, to }) => layerOf(to) > layerOf(from))
      .map(
        ({ from, to }) => `${from} (layer ${layerOf(from)}) imports ${to} (layer ${layerOf(to)})`,
      )
    expect(wrong).toEqual([])
  })

  test("the edges of the runner do not import each other, except for pure files", () => {
    const edges = ["link", "opencode", "prompt", "host"].map((name) => `src/runner/${name}`)
    const isEdge = (file: string) => edges.includes(runnerFolderOf(file))
    const wrong = imports
      .filter(({ from, to }) => isEdge(from) && isEdge(to))
      .filter(({ from, to }) => runnerFolderOf(from) !== runnerFolderOf(to))
      .filter(({ to }) => !isPure(to))
      .map(({ from, to }) => `${from} imports ${to}: edges are joined in daemon.ts`)
    expect(wrong).toEqual([])
  })
})

describe("pure files", () => {
  test("a pure file imports no runtime and no I/O library", () => {
    const wrong = imports
      .filter(({ from }) => isPure(from))
      .filter(({ to }) => /^(node:|bun$|bun:|hono|ws$|execa|eventsource-parser)/.test(to))
      .map(({ from, to }) => `${from} is pure and imports ${to}`)
    expect(wrong).toEqual([])
  })

  test("a pure file uses no clock, no timer, no randomness and no process", async () => {
    for (const file of sources.filter(isPure)) {
      const found =
        /Date\.now|new Date\(|setTimeout|setInterval|Math\.random|crypto\.|process\.|Bun\./.exec(
          await codeOf(file),
        )
      expect(found?.[0] === undefined ? "" : `${file} uses ${found[0]}`).toBe("")
    }
  })
})

describe("things done in one place", () => {
  const filesWith = async (shape: RegExp): Promise<readonly string[]> => {
    const found: string[] = []
    for (const file of sources) if (shape.test(await codeOf(file))) found.push(file)
    return found
  }

  test("only main.ts ends the process", async () => {
    expect(await filesWith(/process\.exit\b/)).toEqual(["src/main.ts"])
  })

  test("only main.ts reads the environment, which it passes to src/settings", async () => {
    expect(await filesWith(/process\.env|Bun\.env/)).toEqual(["src/main.ts"])
  })

  test("only the report of a Durable Object writes to the console", async () => {
    const report = "src/hub/hosts/durable/console-report.ts"
    expect(await filesWith(/console\./)).toEqual([report])
  })

  test("no module has mutable state, so that two runners can run in one process", async () => {
    expect(await filesWith(/^(export )?let /m)).toEqual([])
  })
})
