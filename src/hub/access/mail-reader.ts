/** Whose mail a session reads, beside its own: the mail of the user that it works for. */
import { LOCAL_OWNER, type Owner } from "./ownership.ts"

export interface MailReader {
  /** The user that the session works for. `null`: one person without an account, to whom every user's mail is addressed. */
  readonly user: string | null
  /** The owner is an organization: mail to any user may be read by a later session of that user. */
  readonly isOrg: boolean
}

/** Reads the mail of every user: the owner of `sandpiper up` is the only person there. */
export const everyUser: MailReader = { user: null, isOrg: false }

/** `creator`: the person who made the session, or its first ancestor. No session is made by the user with the empty name. */
export const mailReaderOf = (owner: Owner, creator: string | undefined): MailReader => {
  if (owner === LOCAL_OWNER) return everyUser
  return owner.startsWith("user:")
    ? { user: owner.slice("user:".length), isOrg: false }
    : { user: creator ?? "", isOrg: true }
}

export const mayWriteTo = ({ user, isOrg }: MailReader, to: string): boolean =>
  user === null || isOrg || user === to
