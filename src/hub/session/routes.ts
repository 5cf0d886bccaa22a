/** The hub's addresses: what each is, and who may use it. What is not in the table is not there. */

export type Access = "open" | "runner" | "client" | "hook"

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

/** Also the form of a session's name: what does not fit is no session. */
const NAME = /^[A-Za-z0-9._:-]{1,128}$/

export const routeOf = (method: string, path: string, role: string | null): Route | undefined => {
  const [first, name, next, last, ...more] = path.split("/").slice(1).map(decode)
  if (more.length > 0) return undefined
  if (first === "health" && name === undefined && method === "GET")
    return { to: "health", access: "open" }
  if (first === "hooks" && name !== undefined && next === undefined && method === "POST") {
    return { to: "hook", access: "hook", trigger: name }
  }
  if (first !== "sessions") return undefined
  if (name === undefined) return method === "GET" ? { to: "list", access: "client" } : undefined
  if (!NAME.test(name)) return undefined
  return sessionRoute(method, name, next, last, role)
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

const decode = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    return ""
  }
}
