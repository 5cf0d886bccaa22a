/** What is open: every address the gateway answers is a row here, and all else does not exist. */

/**
 * Who may call: anybody; whoever has the API token or a person's token; a person; the agent's tools; whoever knows
 * OpenCode's password, which OpenCode itself asks for.
 */
export type Access = "open" | "observer" | "person" | "tool" | "opencode"

interface Row {
  readonly name: string
  /** `/*` at the end holds everything below; `:name` stands for one part; `//` begins with a host. */
  readonly path: string
  readonly access: Access
  readonly doc: string
}

export const routes = [
  {
    name: "health",
    path: "/health",
    access: "open",
    doc: "the process is up; says nothing else, to nobody in particular",
  },
  {
    name: "health-verbose",
    path: "/health?verbose",
    access: "observer",
    doc: "the process is up, with its parts",
  },
  {
    name: "ready",
    path: "/ready",
    access: "observer",
    doc: "can prompts run? 200 or 503, with the state of every part",
  },
  { name: "metrics", path: "/metrics", access: "observer", doc: "counters, as Prometheus text" },
  { name: "vscode", path: "/vscode/*", access: "person", doc: "VS Code" },
  { name: "vnc", path: "/vnc/*", access: "person", doc: "the sandbox's screen" },
  { name: "ttyd", path: "/ttyd/*", access: "person", doc: "a terminal" },
  { name: "tunnel", path: "/t/:name/*", access: "person", doc: "a port that the agent serves" },
  {
    name: "tunnel-host",
    path: "//:name--*/*",
    access: "person",
    doc: "the same port under a host of its own, for what needs to be at the root",
  },
  { name: "api", path: "/api/*", access: "tool", doc: "what the agent's tools may ask for" },
  { name: "opencode", path: "/opencode/*", access: "opencode", doc: "OpenCode's own API" },
] as const satisfies readonly Row[]

export type Route = (typeof routes)[number]
export type RouteName = Route["name"]

/** Whoever calls these comes from outside and is passed on to a backend; the runner itself answers the others. */
export const passedOn: ReadonlySet<string> = new Set(
  routes
    .filter(({ access }) => access === "person" || access === "opencode")
    .map(({ name }) => name),
)

const byFirstPart = new Map<string, Route>(
  routes
    .filter(({ path }) => !path.includes("?") && !path.startsWith("//"))
    .map((route) => [route.path.split("/")[1] ?? "", route]),
)
const exact = new Set(
  routes.filter(({ path }) => !path.endsWith("/*")).map(({ path }) => path as string),
)
const [, verbose] = routes

/** The row of an address; parts are compared as they stand, so an encoded one names nothing. */
export const findRoute = (path: string, search: string): Route | undefined => {
  const slash = path.indexOf("/", 1)
  const route = byFirstPart.get(slash === -1 ? path.slice(1) : path.slice(1, slash))
  if (route === undefined) return undefined
  if (exact.has(route.path) && path !== route.path) return undefined
  return route.name === "health" && /[?&]verbose(?:[=&]|$)/.test(search) ? verbose : route
}
