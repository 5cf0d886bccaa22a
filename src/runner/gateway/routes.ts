/**
 * The route table: every address that the gateway serves is a row, and anything else is 404. The row's `access` selects
 * the guard of the route.
 */

/**
 * `tool`: the API token of the agent's tools. `person`: a person, by cookie, token or ticket. `control`: the control
 * plane, by a control token in the Authorization header.
 */
export type Key = "tool" | "person" | "control"

/** Routes that several keys open. */
type SharedAccess = "tool+control" | "person+control" | "tool+person+control"

/**
 * Who may call a route: the holder of a key or of one of several. `open`: anyone. `observer`: the API token or a person's
 * token. `opencode`: anyone, because OpenCode itself checks its password; a body is forwarded only with it.
 */
export type Access = Key | SharedAccess | "open" | "observer" | "opencode"

interface Row {
  readonly name: string
  /** `/*` at the end matches everything below; `:name` matches one segment; `//` starts with a host. */
  readonly path: string
  readonly access: Access
  readonly doc: string
}

export const routes = [
  {
    name: "health",
    path: "/health",
    access: "open",
    doc: "liveness probe: unauthenticated, returns no details",
  },
  {
    name: "health-verbose",
    path: "/health?verbose",
    access: "observer",
    doc: "liveness probe with the state of every component",
  },
  {
    name: "ready",
    path: "/ready",
    access: "observer",
    doc: "readiness: 200 if prompts can run, else 503; with the state of every component",
  },
  { name: "metrics", path: "/metrics", access: "observer", doc: "counters, as Prometheus text" },
  { name: "vscode", path: "/vscode/*", access: "person", doc: "VS Code" },
  { name: "vnc", path: "/vnc/*", access: "person", doc: "the sandbox's screen" },
  { name: "ttyd", path: "/ttyd/*", access: "person", doc: "a terminal" },
  {
    name: "terminal",
    path: "/terminal/*",
    access: "person",
    doc: "terminals: the document, GET list, POST new, DELETE by id, WebSocket ws?id=",
  },
  { name: "tunnel", path: "/t/:name/*", access: "person", doc: "a port that the agent serves" },
  {
    name: "tunnel-host",
    path: "//:name--*/*",
    access: "person",
    doc: "the same port under its own host, for apps that must be at the root",
  },
  {
    name: "services",
    path: "/api/services/*",
    access: "tool+person+control",
    doc: "services of the agent: list, start, stop, restart",
  },
  {
    name: "expose",
    path: "/api/expose",
    access: "tool+person+control",
    doc: "the port of the preview",
  },
  {
    name: "website",
    path: "/api/website/*",
    access: "tool+person+control",
    doc: "the service `web`: install, start, restart",
  },
  {
    name: "service-log",
    path: "/api/logs/*",
    access: "tool+person+control",
    doc: "the output of a service, as server-sent events",
  },
  {
    name: "workspace",
    path: "/api/workspace/*",
    access: "tool+control",
    doc: "the workspace in object storage: save, restore",
  },
  {
    name: "api-health",
    path: "/api/health",
    access: "open",
    doc: 'the same as `/health`, as `{"status":"ok"}`',
  },
  { name: "env", path: "/api/env/*", access: "tool+control", doc: "env files: apply, scrub" },
  {
    name: "api-terminal",
    path: "/api/terminal",
    access: "person+control",
    doc: 'WebSocket: a shell of the agent\'s user; JSON `{type: "resize", cols, rows}`, bytes both ways',
  },
  { name: "api", path: "/api/*", access: "tool", doc: "the operations of the agent's tools" },
  {
    name: "git",
    path: "/api/git/*",
    access: "person+control",
    doc: "repositories of the workspace: status, changes, commits, branches; read only",
  },
  {
    name: "v1-health",
    path: "/v1/health",
    access: "control",
    doc: "whether files and processes can be served",
  },
  {
    name: "v1-agent-directory",
    path: "/v1/agent-directory",
    access: "control",
    doc: "the directory of the workspace that the agent works in",
  },
  {
    name: "v1-files",
    path: "/v1/fs/*",
    access: "tool+control",
    doc: "files of the workspace, as the agent's user",
  },
  {
    name: "v1-processes",
    path: "/v1/processes/*",
    access: "control",
    doc: "programs in the workspace, as the agent's user",
  },
  { name: "opencode", path: "/opencode/*", access: "opencode", doc: "OpenCode's own API" },
] as const satisfies readonly Row[]

export type Route = (typeof routes)[number]
export type RouteName = Route["name"]
type AccessByRoute = { readonly [Entry in Route as Entry["name"]]: Entry["access"] }
export type AccessOf<Name extends RouteName> = AccessByRoute[Name]

/** The name and access of one row, so that both stay of the same row when it is passed on. */
export type RowOf<Name extends RouteName> = {
  [N in Name]: { readonly name: N; readonly access: AccessOf<N> }
}[Name]

/** Routes that forward to a backend for a caller outside the sandbox; the runner itself serves the others. */
export const forwardedRoutes: ReadonlySet<string> = new Set(
  routes
    .filter(
      ({ access, path }) => access === "person" || access === "opencode" || path.startsWith("/v1/"),
    )
    .map(({ name }) => name),
)

/** Rows by the segments before `*` or a parameter: one segment, such as `api`, or two, such as `v1/health`. */
const bySegments = new Map<string, Route>(
  routes
    .filter(({ path }) => !path.includes("?") && !path.startsWith("//"))
    .map((route) => [route.path.slice(1).replace(/\/[*:].*$/, ""), route]),
)
const exactPaths = new Set(
  routes.filter(({ path }) => !path.endsWith("/*")).map(({ path }) => path as string),
)
const [, verboseHealth] = routes

const endOfSegment = (path: string, start: number): number => {
  const slash = path.indexOf("/", start)
  return slash === -1 ? path.length : slash
}

/** The row of an address. Segments are compared as sent: a percent-encoded one matches no row. */
export const findRoute = (path: string, search: string): Route | undefined => {
  const firstEnd = endOfSegment(path, 1)
  const secondEnd = endOfSegment(path, firstEnd + 1)
  const route = bySegments.get(path.slice(1, secondEnd)) ?? bySegments.get(path.slice(1, firstEnd))
  if (route === undefined) return undefined
  if (exactPaths.has(route.path) && path !== route.path) return undefined
  return route.name === "health" && /[?&]verbose(?:[=&]|$)/.test(search) ? verboseHealth : route
}

/** The row of requests whose host names a tunnel. */
export const tunnelHostRoute: RowOf<"tunnel-host"> = { name: "tunnel-host", access: "person" }
