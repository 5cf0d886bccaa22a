/** The routes of the hub's HTTP API and who may call each. */

export type Route =
  | { readonly to: "health"; readonly access: "open" }
  | { readonly to: "list"; readonly access: "client" }
  | { readonly to: "socket"; readonly access: "runner" | "client"; readonly session: string }
  | {
      readonly to: "create" | "snapshot" | "events" | "terminate"
      readonly access: "client"
      readonly session: string
    }
  | {
      readonly to: "verb"
      readonly access: "client"
      readonly session: string
      readonly verb: string
    }
  | {
      readonly to: "artifact"
      readonly access: "client"
      readonly session: string
      readonly artifact: string
    }
  | { readonly to: "hook"; readonly access: "hook"; readonly trigger: string }
  /** The service signs its calls; its adapter checks them. */
  | { readonly to: "chat"; readonly access: "hook"; readonly chat: string }

/** A valid session id. It is also a file name and the name of a Durable Object. */
const SESSION_ID = /^[A-Za-z0-9._:-]{1,128}$/

export const routeOf = (method: string, path: string, role: string | null): Route | undefined => {
  const [first, id, next, last, ...more] = path.split("/").slice(1).map(decode)
  if (more.length > 0) return undefined
  if (first === "health" && id === undefined && method === "GET")
    return { to: "health", access: "open" }
  if (first === "hooks" && id !== undefined && next === undefined && method === "POST") {
    return { to: "hook", access: "hook", trigger: id }
  }
  if (first === "channels" && id !== undefined && next === undefined && method === "POST") {
    return { to: "chat", access: "hook", chat: id }
  }
  if (first !== "sessions") return undefined
  if (id === undefined) return method === "GET" ? { to: "list", access: "client" } : undefined
  if (!SESSION_ID.test(id)) return undefined
  return sessionRoute(method, id, next, last, role)
}

const sessionRoute = (
  method: string,
  session: string,
  next: string | undefined,
  last: string | undefined,
  role: string | null,
): Route | undefined => {
  const access = "client"
  if (next === undefined) {
    const to = ({ PUT: "create", GET: "snapshot", DELETE: "terminate" } as const)[method]
    return to && { to, access, session }
  }
  if (next === "artifacts" && last !== undefined && method === "GET") {
    return { to: "artifact", access, session, artifact: last }
  }
  if (last !== undefined) return undefined
  if (next === "ws" && method === "GET") {
    return { to: "socket", access: role === "runner" ? "runner" : "client", session }
  }
  if (next === "events" && method === "GET") return { to: "events", access, session }
  return method === "POST" ? { to: "verb", access, session, verb: next } : undefined
}

const decode = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ""
  }
}
