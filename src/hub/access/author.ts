/** Author and git identity of a prompt: taken from the principal, never from the fields a client sends. */
import { nameOf, type Principal } from "./principal.ts"
import { hasScope } from "./scopes.ts"

/** The author fields of the wire's `prompt`. */
export interface AuthorFields {
  readonly authorId?: string | undefined
  readonly authorEmail?: string | undefined
  readonly authorName?: string | undefined
  readonly gitName?: string | undefined
  readonly gitEmail?: string | undefined
}

/**
 * With the scope `act-as` (the operator has it) the given fields count, all or none: a mix of two people would be
 * neither. Without the scope the given fields are ignored.
 */
export const authorFields = (principal: Principal, given: AuthorFields): AuthorFields => {
  const { authorId, authorEmail, authorName, gitName, gitEmail } = given
  const named = dropUndefined({ authorId, authorEmail, authorName, gitName, gitEmail })
  return hasScope(principal.scopes, "act-as") && Object.keys(named).length > 0
    ? named
    : ownFields(principal)
}

const ownFields = (principal: Principal): AuthorFields => {
  if (principal.kind === "operator") return {}
  const authorId = nameOf(principal)
  if (principal.kind !== "person") return { authorId }
  const { name, email } = principal
  return {
    authorId,
    ...(name !== undefined && { authorName: name, gitName: name }),
    ...(email !== undefined && { authorEmail: email, gitEmail: email }),
  }
}

const dropUndefined = (fields: AuthorFields): AuthorFields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
