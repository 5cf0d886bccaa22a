/**
 * The check of messages from clients to a session: each is compared against the access table, counted against the owner's
 * limits and written to the audit log before the session gets it. The same for WebSockets and HTTP.
 */
import { isStorageFull, STORAGE_FULL } from "../../lib/storage-full.ts"
import { parseLimitedJson } from "../../wire/json-limits.ts"
import {
  type Client,
  type ClientMessage,
  type ClientVerb,
  clientVerbNames,
  parseClientMessage,
  type RefusalCode,
  type Reply,
} from "../../wire/clients/verbs.ts"
import type { Session } from "../session/session.ts"
import { authorFields } from "./author.ts"
import { type Directory, readerOf } from "./directory.ts"
import { decide } from "./may.ts"
import { openByVerb } from "./open-link.ts"
import { hasExpired, nameOf, type Principal } from "./principal.ts"
import type { SessionAccess } from "./session-access.ts"
import { isAudited } from "./table.ts"

/** A session as its host holds it. */
export interface HostedSession {
  readonly id: string
  readonly session: Session
  readonly access: SessionAccess
}

export interface GuardPorts {
  readonly directory: Directory
  readonly now: () => number
  /** The key that the gateway of this session's sandbox checks; `undefined` when this host does not know it. */
  readonly gatewayKey: (session: HostedSession) => Promise<string | undefined>
  /**
   * The address of the sandbox's gateway as the fleet knows it now; addresses of some providers expire. A sleeping sandbox is
   * woken; null: it does not run.
   */
  readonly gatewayUrl?: ((session: HostedSession) => Promise<string | null | undefined>) | undefined
  /** Ends the session, its runner and its children. */
  readonly terminate: (session: string) => Promise<void>
}

/** Who sent a message, and the network address it came from. */
export interface Sender {
  readonly principal: Principal
  readonly from?: string | undefined
}

export type VerbMessage = Exclude<ClientMessage, { readonly type: "subscribe" }>

const refuse = (code: RefusalCode, message: string, retryAfter?: number): Reply => ({
  ok: false,
  error: { code, message, ...(retryAfter !== undefined && { retryAfter }) },
})

/** Decides on a message; `undefined` when the sender may send it. */
const refusalOf = (
  { now }: GuardPorts,
  { id, access }: HostedSession,
  { principal }: Sender,
  type: ClientMessage["type"],
): Reply | undefined => {
  if (hasExpired(principal, now()))
    return refuse("forbidden", "The token has expired: connect again with a new one.")
  const decision = decide(principal, `verb:${type}`, access.target())
  if (decision.ok) return undefined
  return decision.status === 403
    ? refuse("forbidden", decision.message)
    : refuse("not-found", `session ${id} does not exist`)
}

export const handleVerb = async (
  ports: GuardPorts,
  hosted: HostedSession,
  message: VerbMessage,
  sender: Sender,
): Promise<Reply> => {
  const refused = refusalOf(ports, hosted, sender, message.type)
  if (refused) return refused
  const { session, access, id } = hosted
  const { principal, from } = sender
  const owner = access.owner()
  const action = `verb:${message.type}` as const
  if (message.type === "prompt") {
    const admitted = await ports.directory.admitPrompt(owner, bytesOf(message))
    session.setOwnerAccount(admitted.account)
    if (!admitted.ok) return refuse("too-many", admitted.sentence, admitted.retryAfterSeconds)
  }
  if (isAudited(action)) {
    await ports.directory.appendAudit({ owner, principal, action, session: id, from })
  }
  if (message.type === "config") {
    const { config, patch } = message
    if (!config && !patch) return refuse("bad-request", "config: send `config`, `patch` or both")
    return session.configure(config ?? {}, { withResult: true, patch })
  }
  if (message.type === "approve-execution") return session.clients.approve(message)
  if (message.type === "open") {
    const link = await openByVerb(ports, hosted, message, nameOf(principal))
    return link.ok ? link : refuse(link.code, link.message)
  }
  if (message.type === "end") {
    await ports.terminate(id)
    return { ok: true }
  }
  if (message.type === "tasks" || message.type === "memories" || message.type === "forget")
    return session.clients.askStore(message)
  const known = message.type === "prompt" ? withAuthor(message, principal) : message
  return session.clients.request(known, nameOf(principal))
}

/** What a client says about the author is dropped, unless the principal may act for others. */
const withAuthor = (message: Client<"prompt">, principal: Principal): Client<"prompt"> => {
  const { authorId, authorEmail, authorName, gitName, gitEmail, ...rest } = message
  const given = { authorId, authorEmail, authorName, gitName, gitEmail }
  return { ...rest, ...authorFields(principal, given) }
}

const bytesOf = ({ content, attachments = [] }: Client<"prompt">): number =>
  attachments.reduce((sum, { url }) => sum + url.length, content.length)

const refuseIfFull = (error: unknown): Reply => {
  if (isStorageFull(error)) return refuse("storage-full", STORAGE_FULL)
  throw error
}

export interface GuardedSocket {
  /** A message from a client's WebSocket. Messages of one connection are handled in their order. */
  readonly receive: (text: string, sender: Sender) => Promise<void>
}

/** The guard of one WebSocket; `send` sends to it. */
export const guardSocket = (
  ports: GuardPorts,
  hosted: HostedSession,
  connection: string,
  send: (text: string) => void,
): GuardedSocket => {
  let last: Promise<void> = Promise.resolve()
  const reply = (value: Reply, id?: string) =>
    send(
      JSON.stringify({
        type: "reply",
        ...(id !== undefined && { clientRequestId: id }),
        ...value,
      }),
    )
  const handle = async (text: string, sender: Sender): Promise<void> => {
    const value = parseLimitedJson(text)
    if (isPing(value)) return send('{"type":"pong"}')
    const parsed = parseClientMessage(value)
    if (!parsed.ok) return reply(refuse("bad-request", parsed.problem), idOf(value))
    const { message } = parsed
    if (message.type !== "subscribe") {
      const given = await handleVerb(ports, hosted, message, sender).catch(refuseIfFull)
      return reply(given, message.clientRequestId)
    }
    const refused = refusalOf(ports, hosted, sender, "subscribe")
    if (refused) return reply(refused, message.clientRequestId)
    if (message.access === true)
      send(JSON.stringify({ type: "access", verbs: verbsOf(hosted, sender) }))
    hosted.session.clients.subscribe(connection, message)
    await markRead(ports, hosted, sender.principal)
  }
  return {
    receive: (text, sender) => {
      const done = last.then(() => handle(text, sender))
      last = done.catch(() => undefined)
      return done
    },
  }
}

/** The verbs that the principal may use in this session. Each is decided again when it is used. */
const verbsOf = ({ access }: HostedSession, { principal }: Sender): readonly ClientVerb[] =>
  clientVerbNames.filter((name) => decide(principal, `verb:${name}`, access.target()).ok)

/** The principal has seen everything up to now: when it subscribes, reads a snapshot and when its connection closes. */
export const markRead = async (
  { directory }: Pick<GuardPorts, "directory">,
  { id, session }: HostedSession,
  principal: Principal,
): Promise<void> => {
  try {
    await directory.markRead(readerOf(principal), id, session.facts().rev)
  } catch (error) {
    // A position that is not stored only shows messages as unread.
    if (!isStorageFull(error)) throw error
  }
}

const isPing = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "type" in value && value.type === "ping"

const idOf = (value: unknown): string | undefined =>
  typeof value === "object" &&
  value !== null &&
  "clientRequestId" in value &&
  typeof value.clientRequestId === "string"
    ? value.clientRequestId
    : undefined
