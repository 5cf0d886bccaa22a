/** The one decision about access: `may(principal, action, target)`. It reads the table; what the table lacks is refused. */
import type { RequestFrame } from "../../wire/frames/index.ts"
import type { Route } from "../session/routes.ts"
import { includesRole, roleOn, type Target } from "./ownership.ts"
import type { Principal } from "./principal.ts"
import { hasScope, type Scope } from "./scopes.ts"
import { accessTable, type Action } from "./table.ts"

export type Decision =
  | { readonly ok: true }
  /**
   * 401: no principal. 404: the principal has no role on the target, so its existence stays hidden. 403: the principal
   * can see the target, but its role or scopes are not enough.
   */
  | { readonly ok: false; readonly status: 401 | 403 | 404; readonly message: string }

export const decide = (
  principal: Principal | undefined,
  action: Action,
  target: Target | undefined,
): Decision => {
  // `Object.hasOwn`: a name from outside such as `verb:x` or `constructor` must not find a rule by accident.
  const rule = Object.hasOwn(accessTable, action) ? accessTable[action] : undefined
  if (rule === undefined) return notFound
  if (rule.guard === "open") return { ok: true }
  if (rule.guard === "hook-secret") return notFound
  if (principal === undefined) return unauthenticated
  if (target === undefined || (rule.on !== "owner" && target.id === undefined)) return notFound
  // Members of one session have no role in what belongs to its owner as a whole.
  const role = roleOn(principal, rule.on === "owner" ? { owner: target.owner } : target)
  if (role === undefined || (rule.on === "own-session" && !isOwn(principal, target)))
    return notFound
  if (!rule.kinds.includes(principal.kind)) {
    return forbidden(`A principal of kind ${principal.kind} may not do this.`)
  }
  if (!includesRole(role, rule.role)) {
    return forbidden(`This needs the role ${rule.role}; the caller is ${role}.`)
  }
  if (!hasScope(principal.scopes, rule.scope)) {
    return forbidden(`This needs the scope ${rule.scope}, which the caller's token does not have.`)
  }
  return { ok: true }
}

const isOwn = (principal: Principal, { id }: Target): boolean =>
  principal.kind === "runner" && principal.session === id

export const may = (
  principal: Principal | undefined,
  action: Action,
  target: Target | undefined,
): boolean => decide(principal, action, target).ok

/** An API key must not have more scopes than the principal that creates it. */
export const mayGrant = (principal: Principal, scopes: readonly Scope[]): boolean =>
  scopes.every((scope) => hasScope(principal.scopes, scope))

/** A `PUT` to a session that exists changes it, which needs more than creating one. */
export const actionOfRoute = (
  route: Route,
  exists: boolean,
): Exclude<Action, `event:${string}` | `request:${string}`> | undefined => {
  switch (route.to) {
    case "verb": {
      const action = `verb:${route.verb}`
      return isVerbAction(action) ? action : undefined
    }
    case "socket":
      return route.role === "runner" ? "route:socket-runner" : "route:socket-client"
    case "put":
      return exists ? "route:update" : "route:create-named"
    default:
      return `route:${route.to}`
  }
}

const isVerbAction = (action: string): action is Extract<Action, `verb:${string}`> =>
  action.startsWith("verb:") && Object.hasOwn(accessTable, action)

/** The session that a runner's request is about: the one it names, or the runner's own. */
export const sessionOfRequest = (frame: RequestFrame, own: string): string => {
  if ("targetSessionId" in frame) return frame.targetSessionId
  if ("childSessionId" in frame) return frame.childSessionId
  return own
}

const notFound: Decision = {
  ok: false,
  status: 404,
  message: "The route or the session does not exist.",
}
const unauthenticated: Decision = {
  ok: false,
  status: 401,
  message: "A token is required: Authorization: Bearer <token>.",
}
const forbidden = (message: string): Decision => ({ ok: false, status: 403, message })
