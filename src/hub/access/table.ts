/**
 * The access table: one row for each thing a caller can ask of the session agent. The type is total, so a new client
 * verb, route, event or runner request does not compile until it has a row here.
 */
import type { ClientVerb } from "../../wire/clients/verbs.ts"
import type { RequestType } from "../../wire/frames/index.ts"
import type { ChangeKind } from "../session/changes.ts"
import type { Route } from "../session/routes.ts"
import type { Role } from "./ownership.ts"
import type { PrincipalKind } from "./principal.ts"
import type { Scope } from "./scopes.ts"

/** Routes that need rows of their own beside the ones in `routes.ts`. */
type SplitRoute = "socket-client" | "socket-runner" | "create-named" | "update"

export type RouteAction = `route:${Exclude<Route["to"], "verb" | "socket" | "put"> | SplitRoute}`
export type VerbAction = `verb:${ClientVerb}`
export type EventAction = `event:${ChangeKind | "snapshot" | "changes"}`
export type RequestAction = `request:${RequestType}`

/** Calls of the fleet's HTTP API, by what they reach. */
export type FleetAction = `fleet:${"read" | "prompt" | "change" | "service" | "observe" | "admin"}`

export type Action = RouteAction | VerbAction | EventAction | RequestAction | FleetAction

/** Allowed for a principal of one of `kinds` that has `role` on the target and holds `scope`. */
interface Guarded {
  readonly guard: "principal"
  readonly kinds: readonly PrincipalKind[]
  readonly role: Role
  readonly scope: Scope
  /** `session`: about one session. `own-session`: about the runner's own. `owner`: about an owner as a whole. */
  readonly on: "session" | "own-session" | "owner"
  readonly doc: string
}

export type Rule =
  | Guarded
  | { readonly guard: "open"; readonly doc: string }
  /** The trigger's own secret decides: no principal is enough. */
  | { readonly guard: "hook-secret"; readonly doc: string }

const PEOPLE = ["operator", "person"] as const
const PEOPLE_AND_LINKS = ["operator", "person", "share-link"] as const

type Row = (doc: string, kinds?: readonly PrincipalKind[]) => Guarded

const row =
  (on: Guarded["on"], role: Role, scope: Scope, usual: readonly PrincipalKind[]): Row =>
  (doc, kinds = usual) => ({ guard: "principal", on, role, scope, kinds, doc })

const read = row("session", "viewer", "sessions:read", PEOPLE_AND_LINKS)
const write = row("session", "editor", "sessions:write", PEOPLE_AND_LINKS)
const admin = row("session", "owner", "sessions:admin", PEOPLE)
const keys = row("owner", "owner", "keys", PEOPLE)
const runnerSelf = row("own-session", "editor", "sessions:write", ["runner"])
/** Requests of a runner that read or change another session. */
const runnerRead = row("session", "viewer", "sessions:read", ["runner"])
const runnerWrite = row("session", "editor", "sessions:write", ["runner"])
const runnerEnds = row("session", "owner", "sessions:write", ["runner"])
/** Requests of a runner that concern its owner's shared store or git host. */
const runnerStore = row("owner", "editor", "sessions:write", ["runner"])

const routes: Readonly<Record<RouteAction, Rule>> = {
  "route:health": { guard: "open", doc: "`GET /health`" },
  "route:hook": { guard: "hook-secret", doc: "`POST /hooks/:trigger`" },
  "route:chat": {
    guard: "hook-secret",
    doc: "`POST /channels/:chat`, signed by the chat service",
  },
  "route:fleet": {
    guard: "hook-secret",
    doc: "`POST /fleet/sessions/:id/:call`, signed by the fleet",
  },
  "route:list": row("owner", "viewer", "sessions:read", PEOPLE)("`GET /sessions`"),
  "route:lobby": row("owner", "viewer", "sessions:read", PEOPLE)("`GET /lobby/ws`"),
  "route:login-link": row("owner", "owner", "sessions:admin", ["operator"])(
    "`POST /login-links`: a login link of the page",
  ),
  "route:search": row("owner", "viewer", "sessions:read", PEOPLE)("`GET /search`"),
  "route:create": row(
    "owner",
    "editor",
    "sessions:write",
    PEOPLE,
  )("`POST /sessions`; the id is made by the hub"),
  "route:default-model": row(
    "owner",
    "owner",
    "sessions:admin",
    PEOPLE,
  )("`PUT /default-model`: the model of the owner's prompts that name none"),
  // A person who could choose ids would learn which ids other owners have taken.
  "route:create-named": row("owner", "owner", "sessions:admin", ["operator"])(
    "`PUT /sessions/:id` of a new session",
  ),
  "route:update": admin("`PUT /sessions/:id` of a session that exists"),
  "route:snapshot": read("`GET /sessions/:id`"),
  "route:events": read("`GET /sessions/:id/events`"),
  "route:artifact": read("`GET /sessions/:id/artifacts/:artifact`"),
  "route:terminate": admin("`DELETE /sessions/:id`"),
  "route:socket-client": read("`GET /sessions/:id/ws?role=client`"),
  "route:socket-runner": runnerSelf("`GET /sessions/:id/ws?role=runner`"),
  "route:links": write("`POST /sessions/:id/links`", PEOPLE),
  "route:control-tokens": admin(
    "`POST /sessions/:id/control-tokens`: a token for `/v1` of the sandbox's gateway",
  ),
  "route:members-list": read("`GET /sessions/:id/members`", PEOPLE),
  "route:members-set": admin("`PUT /sessions/:id/members/:sub`"),
  "route:members-remove": admin("`DELETE /sessions/:id/members/:sub`"),
  "route:share-links-list": admin("`GET /sessions/:id/share-links`"),
  "route:share-links-create": admin("`POST /sessions/:id/share-links`"),
  "route:share-links-revoke": admin("`DELETE /sessions/:id/share-links/:link`"),
  "route:budget-read": read("`GET /sessions/:id/budget`", PEOPLE),
  "route:budget-set": admin("`PUT /sessions/:id/budget`"),
  "route:owner-budget-set": row("owner", "owner", "sessions:admin", ["operator"])(
    "`PUT /owners/:owner/budget`",
  ),
  "route:keys-list": keys("`GET /keys`"),
  "route:keys-create": keys("`POST /keys`"),
  "route:keys-revoke": keys("`DELETE /keys/:prefix`"),
  "route:keys-rotate": row("owner", "owner", "keys", ["operator"])(
    "`POST /keys/rotate`: encrypt every stored config with the first encryption key",
  ),
  "route:personas-list": row("owner", "viewer", "sessions:read", PEOPLE)("`GET /personas`"),
  "route:personas-put": row("owner", "owner", "sessions:admin", PEOPLE)("`PUT /personas/:slug`"),
  "route:personas-remove": row(
    "owner",
    "owner",
    "sessions:admin",
    PEOPLE,
  )("`DELETE /personas/:slug`"),
  "route:audit": row("owner", "editor", "audit", PEOPLE)("`GET /audit`"),
}

const verbs: Readonly<Record<VerbAction, Rule>> = {
  "verb:subscribe": read("events, snapshot first"),
  "verb:history": read("older messages"),
  "verb:diff": read("changes in the workspace"),
  "verb:search": read("find messages by their text"),
  "verb:rename": write("change the title"),
  "verb:seen": write("mark a conversation as seen"),
  "verb:tasks": admin("read the owner's tasks"),
  "verb:memories": admin("read the owner's memories"),
  "verb:forget": admin("delete a memory of the owner"),
  "verb:prompt": write("queue a prompt"),
  "verb:abort": write("stop the running turn"),
  "verb:answer": write("answer a question"),
  "verb:permission": write("decide on a permission"),
  "verb:approve-execution": write("approve or deny a workflow's gate"),
  "verb:withdraw": write("remove a queued prompt"),
  "verb:promote": write("move a queued prompt to the front"),
  "verb:revert": write("undo messages"),
  "verb:command": write("run a command of the agent"),
  "verb:review": write("start a review, which costs tokens"),
  "verb:new-session": write("start a fresh conversation"),
  "verb:delete-tunnel": write("remove a tunnel"),
  "verb:open": write("open the sandbox's editor, screen, terminal or a tunnel", PEOPLE),
  "verb:end": admin("end the session"),
  "verb:config": admin("change the agent's settings and keys"),
}

const events: Readonly<Record<EventAction, Rule>> = {
  "event:snapshot": read("the whole session"),
  "event:changes": read("what changed since the cursor"),
  "event:message": read("a message"),
  "event:part": read("a part of a message"),
  "event:delta": read("text added to a part"),
  "event:removed": read("a removed message"),
  "event:part-removed": read("a part that was withdrawn"),
  "event:queue": read("the queue"),
  "event:channel": read("the summary of a conversation"),
  "event:interaction": read("a question, a permission or an approval"),
  "event:state": read("a named value"),
  "event:ask": read("the result of a command"),
  "event:artifact": read("an image, or a file that the agent shows"),
  "event:usage": read("tokens and cost"),
}

const requests: Readonly<Record<RequestAction, Rule>> = {
  "request:spawn-child": runnerSelf("own session"),
  "request:list-child-sessions": runnerSelf("own session"),
  "request:list-channels": runnerSelf("own session"),
  "request:channel-reply": runnerSelf("own session"),
  "request:workspace-urls": runnerSelf("own session"),
  "request:get-session-status": runnerRead("`targetSessionId`"),
  "request:session-messages": runnerRead("`targetSessionId`"),
  "request:forward-messages": runnerRead("`targetSessionId`"),
  "request:session-message": runnerWrite("`targetSessionId`"),
  "request:terminate-child": runnerEnds("`childSessionId`, a descendant"),
  "request:create-pr": runnerStore("git host"),
  "request:update-pr": runnerStore("git host"),
  "request:list-pull-requests": runnerStore("git host"),
  "request:inspect-pull-request": runnerStore("git host"),
  "request:list-repos": runnerStore("git host"),
  "request:read-repo-file": runnerStore("git host"),
  "request:git-token": runnerStore("git host"),
  "request:memory-read": runnerStore("shared store"),
  "request:memory-write": runnerStore("shared store"),
  "request:memory-delete": runnerStore("shared store"),
  "request:task-create": runnerStore("shared store"),
  "request:task-list": runnerStore("shared store"),
  "request:task-update": runnerStore("shared store"),
  "request:task-my": runnerStore("shared store"),
  "request:mailbox-send": runnerStore("shared store"),
  "request:mailbox-check": runnerStore("shared store"),
  "request:workflow-list": runnerStore("shared store"),
  "request:workflow-sync": runnerStore("shared store"),
  "request:workflow-run": runnerStore("shared store"),
  "request:workflow-executions": runnerStore("shared store"),
  "request:workflow-api": runnerStore("shared store"),
  "request:trigger-api": runnerStore("shared store"),
  "request:execution-api": runnerStore("shared store"),
  "request:list-personas": runnerStore("shared store"),
}

const fleet: Readonly<Record<FleetAction, Rule>> = {
  "fleet:read": read("status and files of a sandbox", PEOPLE),
  "fleet:prompt": write("a prompt for the agent of a sandbox, which wakes it", PEOPLE),
  "fleet:change": admin("pause, resume, end a sandbox; run programs in it"),
  "fleet:service": row(
    "owner",
    "editor",
    "sessions:write",
    PEOPLE,
  )("sandboxes of an owner's chats and threads"),
  // About all owners: only a caller that holds the scope can grant it.
  "fleet:observe": row("owner", "viewer", "metrics", PEOPLE)("counters and readiness"),
  "fleet:admin": row("owner", "owner", "sessions:admin", ["operator"])("all sandboxes, the sweep"),
}

export const accessTable: Readonly<Record<Action, Rule>> = {
  ...fleet,
  ...routes,
  ...verbs,
  ...events,
  ...requests,
}

export const actions = Object.keys(accessTable) as readonly Action[]

/** Reading is written to the audit log only where a session is opened; lists and pages of history are not. */
const OPENING: readonly Action[] = ["route:snapshot", "route:events", "route:socket-client"]

export const isAudited = (action: Action): boolean => {
  const rule = accessTable[action]
  if (rule.guard !== "principal") return false
  return OPENING.includes(action) || (rule.scope !== "sessions:read" && rule.scope !== "audit")
}
