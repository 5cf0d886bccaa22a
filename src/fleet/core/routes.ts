/** The routes of the fleet's HTTP API. A request that matches no row is not the fleet's. Pure. */

/**
 * Who may call a route. `read`, `prompt` and `change` are about one session and decided by its owner, members and scopes;
 * `service` is about an owner's sessions as a whole; `observe` is for programs that watch the deployment and change nothing; `admin` is
 * for the operator; `open` needs no token.
 */
export type RouteAccess = "open" | "read" | "prompt" | "change" | "service" | "observe" | "admin"

interface RouteRow {
  readonly method: "GET" | "POST" | "DELETE"
  /** `:name` matches one segment. */
  readonly path: string
  readonly access: RouteAccess
  readonly doc: string
}

export const fleetRoutes = {
  "prepare-invoke": {
    method: "POST",
    path: "/api/marketplace/expert/prepare-invoke",
    access: "service",
    doc: "`{chatSessionId}`: the sandbox of a chat; starts it and does not wait; `projectId` is accepted and has no effect; 404 `no-such-expert` for an `expertIdentifier`: there are no experts here",
  },
  "by-chat": {
    method: "GET",
    path: "/api/sandbox/by-chat/:chat",
    access: "service",
    doc: "the sandbox of a chat; `?waitSeconds=60` waits until it runs, unless it sleeps or has ended",
  },
  status: {
    method: "GET",
    path: "/api/sandbox/:session/status",
    access: "read",
    doc: "status, provider, sandbox, generation; `disk` of a local sandbox once it was measured: `{state, usedBytes, limitBytes?, usedFiles, limitFiles?}`, `state` is `ok`, `near` or `full`",
  },
  history: {
    method: "GET",
    path: "/api/sandbox/:session/history",
    access: "read",
    doc: "the sandboxes that the session has had, the newest 500: provider, what it was made from, when it began and ended and why, the seconds that it ran, its cost",
  },
  pause: {
    method: "POST",
    path: "/api/sandbox/:session/pause",
    access: "change",
    doc: "after the prompts that it has; `?wait=1` answers when it is done",
  },
  hibernate: {
    method: "POST",
    path: "/api/sandbox/:session/hibernate",
    access: "change",
    doc: "saves the files and ends the sandbox",
  },
  resume: {
    method: "POST",
    path: "/api/sandbox/:session/resume",
    access: "change",
    doc: "starts or wakes it; 409 `asleep` if another session agent starts and stops it, like every call that would wake it",
  },
  terminate: {
    method: "POST",
    path: "/api/sandbox/:session/terminate",
    access: "change",
    doc: "ends the session and its sandbox for good",
  },
  forget: {
    method: "DELETE",
    path: "/api/sandbox/:session",
    access: "admin",
    doc: "deletes the record; the sweep ends the sandbox",
  },
  "file-list": {
    method: "GET",
    path: "/api/sandbox/:session/files",
    access: "read",
    doc: "`?path=`: entries of a directory of the workspace; wakes a sleeping sandbox",
  },
  "file-read": {
    method: "GET",
    path: "/api/sandbox/:session/files/content",
    access: "read",
    doc: "`?path=`: the content of a file",
  },
  upload: {
    method: "POST",
    path: "/api/sandbox/:session/uploads",
    access: "change",
    doc: "multipart files into `uploads/` of the workspace; answers with their paths, which are absolute if the agent works in the clone of a repository",
  },
  exec: {
    method: "POST",
    path: "/api/sandbox/:session/exec",
    access: "change",
    doc: "`{command, args?, cwd?, env?, timeoutMs?}`: runs a program in the workspace, for 30 s or `timeoutMs`, at most five minutes",
  },
  artifacts: {
    method: "GET",
    path: "/api/sandbox/:session/artifacts",
    access: "read",
    doc: "the files that the agent shows (`output/display` of its directory): path, size, modified; their content by `files/content?path=`",
  },
  sync: {
    method: "POST",
    path: "/api/sandbox/:session/sync",
    access: "change",
    doc: "saves the workspace to object storage now",
  },
  restore: {
    method: "POST",
    path: "/api/sandbox/:session/restore",
    access: "change",
    doc: "writes saved files that the workspace does not have; `{files}` is their number",
  },
  "bootstrap-website": {
    method: "POST",
    path: "/api/sandbox/:session/bootstrap-website",
    access: "change",
    doc: "`{template?, directory?, waitSeconds?}`: installs a website's packages and runs its dev server on port 3000, or on a free port if 3000 is taken; answers with `port` and `containerUrl`",
  },
  "restart-dev-server": {
    method: "POST",
    path: "/api/sandbox/:session/restart-dev-server",
    access: "change",
    doc: "`{waitSeconds?}`: restarts that dev server",
  },
  "agent-invoke": {
    method: "POST",
    path: "/api/agent/invoke",
    access: "service",
    doc: "`{sandbox_session_id?, sandbox_mode, message, message_id?}`: a prompt for a session that the caller may write to, as a thread's prompt; `none` and `local` need no sandbox; `provider_sandbox_id` and `sandbox_url` are accepted and have no effect, because the session decides which sandbox it has; 409 `another-provider` for a `sandbox_provider` that is not the session's",
  },
  "agent-resume": {
    method: "POST",
    path: "/api/agent/resume",
    access: "service",
    doc: "`{sandbox_session_id, message?, message_id?}`: the same; without a message it only starts or wakes the sandbox",
  },
  "thread-resolve": {
    method: "POST",
    path: "/api/threads/:thread/resolve",
    access: "service",
    doc: "starts or wakes the sandbox of a thread; `?wait=1` answers when it runs",
  },
  "thread-prompt": {
    method: "POST",
    path: "/api/threads/:thread/prompt",
    access: "service",
    doc: "`{message, messageId?}`: a prompt for the session of this thread; the first one creates it",
  },
  "thread-stop": {
    method: "POST",
    path: "/api/threads/:thread/stop",
    access: "service",
    doc: "stops what its agent does, withdraws queued prompts and puts its sandbox to sleep; the next prompt wakes it",
  },
  "create-session": {
    method: "POST",
    path: "/create-session",
    access: "admin",
    doc: "a sandbox for a session of another session agent, which starts and stops it by these six routes; `customProviders` and `workspace` have no effect here: that agent sends the providers in `opencode-config`; 400 with their names for `envVars` that the fleet or the image sets; `SANDPIPER_PUBLIC_URL` in them is the address at which that agent serves the sandbox's gateway; `idleTimeoutSeconds` is for providers that stop idle sandboxes themselves (modal, e2b, daytona), at the others only that agent ends the sandbox; 409 `has-sandbox` if the session has a sandbox with other fields",
  },
  "restore-session": {
    method: "POST",
    path: "/restore-session",
    access: "admin",
    doc: "the same from `snapshotImageId`; 404 `no-snapshot` if it does not exist",
  },
  "terminate-session": {
    method: "POST",
    path: "/terminate-session",
    access: "admin",
    doc: "`{sandboxId}`; also 200 if the sandbox has ended, 409 `already-finished` if no session is known to have had it",
  },
  "hibernate-session": {
    method: "POST",
    path: "/hibernate-session",
    access: "admin",
    doc: "`{sandboxId}` -> `{snapshotImageId}`, the same id when repeated; 409 `already-finished` if the sandbox has ended without a snapshot",
  },
  "session-status": {
    method: "POST",
    path: "/session-status",
    access: "admin",
    doc: "`{sandboxId}` -> `{status}`: `running`, `paused` or `terminated`; 503 if the provider does not say it",
  },
  "delete-workspace": {
    method: "POST",
    path: "/delete-workspace",
    access: "admin",
    doc: "`{sessionId}`: deletes the volume of its workspace; 409 `has-sandbox` while a sandbox uses it",
  },
  sandboxes: {
    method: "GET",
    path: "/api/sandboxes",
    access: "admin",
    doc: "all sandboxes, at most `?limit=500` in one answer; `?after=` the `next` of an answer continues there; `inPool` marks those that wait in the warm pool",
  },
  providers: {
    method: "GET",
    path: "/api/providers",
    access: "admin",
    doc: "the sandbox provider and its capabilities",
  },
  sweep: {
    method: "POST",
    path: "/api/sweep",
    access: "admin",
    doc: "`?dryRun=1`: ends sandboxes that no session knows, or only lists them",
  },
  "base-snapshot": {
    method: "POST",
    path: "/api/base-snapshot",
    access: "admin",
    doc: "makes the snapshot that new sandboxes of this version begin with, unless there is one; `?again=1`: also then; `{snapshotId, isNew}`",
  },
  metrics: { method: "GET", path: "/metrics", access: "observe", doc: "counters, for Prometheus" },
  ready: {
    method: "GET",
    path: "/ready",
    access: "observe",
    doc: "whether database and sandbox provider answer; 503 if not",
  },
} as const satisfies Readonly<Record<string, RouteRow>>

export type RouteName = keyof typeof fleetRoutes

export interface MatchedRoute {
  readonly name: RouteName
  readonly access: RouteAccess
  readonly params: Readonly<Record<string, string>>
}

const names = Object.keys(fleetRoutes) as readonly RouteName[]

/** No name of ours has control characters, and PostgreSQL does not take all of them. */
const decode = (segment: string): string | undefined => {
  try {
    const text = decodeURIComponent(segment)
    return /\p{Cc}/u.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

const match = (pattern: string, path: string): Record<string, string> | undefined => {
  const wanted = pattern.split("/")
  const given = path.split("/")
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of wanted.entries()) {
    const segment = given[index] ?? ""
    if (!part.startsWith(":")) {
      if (part !== segment) return undefined
      continue
    }
    const value = decode(segment)
    if (value === undefined || value === "") return undefined
    params[part.slice(1)] = value
  }
  return params
}

/** `by-chat` is a word, not the id of a session: a literal path comes before one with a parameter. */
const ordered = names.toSorted(
  (a, b) => fleetRoutes[a].path.split(":").length - fleetRoutes[b].path.split(":").length,
)

export const matchRoute = (method: string, path: string): MatchedRoute | undefined => {
  for (const name of ordered) {
    const row = fleetRoutes[name]
    if (row.method !== method) continue
    const params = match(row.path, path)
    if (params) return { name, access: row.access, params }
  }
  return undefined
}

/** A path below one of these is the fleet's also if no row matches: it is answered with 404 in the fleet's form. */
export const isFleetPath = (path: string): boolean =>
  /^\/api\/(sandbox|sandboxes|sweep|providers|threads|agent|marketplace)(\/|$)/.test(path) ||
  names.some((name) => fleetRoutes[name].path === path)
