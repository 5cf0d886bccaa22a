/** The routes of the hub's HTTP API. Who may call each is in `access/table.ts`, where `to` names the row. */

/** Routes that share a session with people. */
export type SharingRoute =
  | {
      readonly to:
        | "links"
        | "control-tokens"
        | "members-list"
        | "share-links-list"
        | "share-links-create"
        | "budget-read"
        | "budget-set"
      readonly session: string
    }
  | {
      readonly to: "members-set" | "members-remove"
      readonly session: string
      readonly sub: string
    }
  | { readonly to: "share-links-revoke"; readonly session: string; readonly link: string }

/** The personas of an owner. */
export type PersonaRoute =
  | { readonly to: "personas-list" }
  | { readonly to: "personas-put" | "personas-remove"; readonly slug: string }

/** Routes about an owner as a whole: its sessions, keys and audit log. */
interface OwnerRoute {
  readonly to:
    | "list"
    | "lobby"
    | "login-link"
    | "search"
    | "create"
    | "default-model"
    | "keys-list"
    | "keys-create"
    | "keys-rotate"
    | "audit"
}

export type Route =
  | { readonly to: "health" }
  | OwnerRoute
  | PersonaRoute
  | SharingRoute
  | { readonly to: "put" | "snapshot" | "events" | "terminate"; readonly session: string }
  | { readonly to: "socket"; readonly role: "runner" | "client"; readonly session: string }
  | { readonly to: "verb"; readonly session: string; readonly verb: string }
  | { readonly to: "artifact"; readonly session: string; readonly artifact: string }
  | { readonly to: "keys-revoke"; readonly prefix: string }
  | { readonly to: "owner-budget-set"; readonly owner: string }
  | { readonly to: "hook"; readonly trigger: string }
  /** The service signs its calls; its adapter checks them. */
  | { readonly to: "chat"; readonly chat: string }
  /** The fleet signs its calls. */
  | { readonly to: "fleet"; readonly session: string; readonly call: string }

/** A valid session id. It is also a file name and the name of a Durable Object. */
const SESSION_ID = /^[A-Za-z0-9._:-]{1,128}$/

const ownerRoutes: ReadonlyMap<string, "health" | "personas-list" | OwnerRoute["to"]> = new Map([
  ["GET health", "health"],
  ["GET sessions", "list"],
  ["POST sessions", "create"],
  ["PUT default-model", "default-model"],
  ["GET search", "search"],
  ["GET keys", "keys-list"],
  ["POST keys", "keys-create"],
  ["GET audit", "audit"],
  ["POST login-links", "login-link"],
  ["GET personas", "personas-list"],
])

const sessionRoutes: ReadonlyMap<
  string,
  "events" | Exclude<SharingRoute, { sub: string } | { link: string }>["to"]
> = new Map([
  ["GET events", "events"],
  ["GET members", "members-list"],
  ["GET share-links", "share-links-list"],
  ["POST share-links", "share-links-create"],
  ["POST links", "links"],
  ["POST control-tokens", "control-tokens"],
  ["GET budget", "budget-read"],
  ["PUT budget", "budget-set"],
])

export const routeOf = (method: string, path: string, role: string | null): Route | undefined => {
  const [first, id, next, last, ...more] = path.split("/").slice(1).map(decode)
  if (more.length > 0) return undefined
  if (first === "sessions" && id !== undefined) {
    return SESSION_ID.test(id) ? sessionRoute(method, id, next, last, role) : undefined
  }
  if (first === "fleet" && id === "sessions" && method === "POST") {
    return next !== undefined && SESSION_ID.test(next) && last !== undefined
      ? { to: "fleet", session: next, call: last }
      : undefined
  }
  return ownerRoute(method, first, id, next, last)
}

const ownerRoute = (
  method: string,
  first: string | undefined,
  id: string | undefined,
  next: string | undefined,
  last: string | undefined,
): Route | undefined => {
  if (last !== undefined || (next !== undefined && first !== "owners")) return undefined
  if (id === undefined) {
    const to = ownerRoutes.get(`${method} ${first ?? ""}`)
    return to && { to }
  }
  if (first === "personas") {
    const to = ({ PUT: "personas-put", DELETE: "personas-remove" } as const)[method]
    return to && { to, slug: id }
  }
  if (first === "lobby" && id === "ws" && method === "GET") return { to: "lobby" }
  if (first === "hooks" && method === "POST") return { to: "hook", trigger: id }
  if (first === "channels" && method === "POST") return { to: "chat", chat: id }
  if (first === "keys" && id === "rotate" && method === "POST") return { to: "keys-rotate" }
  if (first === "keys" && method === "DELETE") return { to: "keys-revoke", prefix: id }
  if (first === "owners" && next === "budget" && method === "PUT") {
    return { to: "owner-budget-set", owner: id }
  }
  return undefined
}

const sessionRoute = (
  method: string,
  session: string,
  next: string | undefined,
  last: string | undefined,
  role: string | null,
): Route | undefined => {
  if (next === undefined) {
    const to = ({ PUT: "put", GET: "snapshot", DELETE: "terminate" } as const)[method]
    return to && { to, session }
  }
  if (last !== undefined) return detailRoute(method, session, next, last)
  if (next === "ws" && method === "GET") {
    return { to: "socket", role: role === "runner" ? "runner" : "client", session }
  }
  const to = sessionRoutes.get(`${method} ${next}`)
  if (to) return { to, session }
  return method === "POST" ? { to: "verb", session, verb: next } : undefined
}

const detailRoute = (
  method: string,
  session: string,
  next: string,
  last: string,
): Route | undefined => {
  switch (`${method} ${next}`) {
    case "GET artifacts":
      return { to: "artifact", session, artifact: last }
    case "PUT members":
      return { to: "members-set", session, sub: last }
    case "DELETE members":
      return { to: "members-remove", session, sub: last }
    case "DELETE share-links":
      return { to: "share-links-revoke", session, link: last }
    default:
      return undefined
  }
}

const decode = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ""
  }
}
