/** What the page knows: the view of the open session, the list of sessions, and the actions of the person. */
import { MAIN_CHANNEL } from "../../../wire/channel.ts"
import { batch, computed, effect, signal } from "@preact/signals"
import type { Client, ClientMessage, ClientVerb, Reply } from "../../../wire/clients/verbs.ts"
import { createDock } from "../../view/dock.ts"
import { unanswered } from "../../view/outbox.ts"
import type { ListedSession } from "../../view/sidebar-rows.ts"
import { stepLobby } from "../../view/lobby.ts"
import { step } from "../../view/step.ts"
import { createTurns, pendingPrompts } from "../../view/turns.ts"
import { type Action, emptyView, type View } from "../../view/view.ts"
import { channelFields, pathOf } from "../routes.ts"
import { createSession, listSessions, type Request, type Workspace } from "./api.ts"
import { keepOutbox, type KeptOutbox } from "./keep-outbox.ts"
import { type LobbySocket, openLobby } from "./lobby.ts"
import { login, refuse } from "./login.ts"
import { go, newChannel, route } from "./navigation.ts"
import { checkVersion } from "./new-version.ts"
import { openSocket, type Socket } from "./socket.ts"
import { readJson, writeStored } from "./storage.ts"

export const view = signal<View>(emptyView)
/** Changes less often than the view, of which every word that streams in makes a new one. */
export const state = computed(() => view.value.state)
/** The verbs that this login may use in the open session; `undefined` before the hub has named them. */
const verbs = signal<readonly string[] | undefined>(undefined)
export const mayUse = (verb: ClientVerb): boolean => verbs.value?.includes(verb) ?? true
/** The first snapshot of the conversation has arrived. */
export const isLoaded = signal(false)
export const sessions = signal<readonly ListedSession[] | undefined>(undefined)
/** A new conversation is a new session with a sandbox of its own. */
export const mayCreate = signal(false)
/** Where the hub can start another session on its own machine. */
export const newWorkspaces = signal<readonly Workspace[]>([])
/** The model of prompts that name none, for all sessions of the person. */
export const ownerModel = signal<string | undefined>(undefined)
export const maySetModel = signal(false)
/** Why the last session could not be created. */
export const createProblem = signal<string | undefined>(undefined)
/** When the next attempt to connect starts. */
export const retryAt = signal<number | undefined>(undefined)
/** The newest change that the person has seen, by `<session>/<channel>`. */
const seen = signal<Readonly<Record<string, number>>>(readJson("seen", {}))

const turnsOf = createTurns()
export const turns = computed(() => turnsOf(view.value, route.value.channel))
export const pending = computed(() => pendingPrompts(view.value, route.value.channel))
const dockOf = createDock()
export const dock = computed(() => dockOf(view.value, route.value.channel))
/** The question that a typed text answers: one of this conversation. Others are answered by their buttons. */
export const openQuestion = computed(() =>
  dock.value.interactions.find(
    (one) => one.kind === "question" && one.channel === route.value.channel,
  ),
)
export const isWorking = computed(() => dock.value.canStop || dock.value.isStopping)
export const session = computed(() => route.value.session)
export const channel = computed(() => route.value.channel)

/** Events between two frames of the screen are applied in one step, so that a burst renders once. */
const waiting: Action[] = []
const flush = () => {
  const actions = waiting.splice(0)
  if (actions.length === 0) return
  const next = actions.reduce(step, view.value)
  batch(() => {
    view.value = next
    if (actions.some((action) => action.type === "event" && action.event.type === "snapshot"))
      isLoaded.value = true
  })
  if (next.gap) subscribe()
}
const HIDDEN_MS = 100
const dispatchLater = (action: Action) => {
  waiting.push(action)
  if (waiting.length > 1) return
  if (document.hidden) setTimeout(flush, HIDDEN_MS)
  else requestAnimationFrame(flush)
}
const dispatch = (action: Action) => {
  waiting.push(action)
  flush()
}

interface Connection {
  readonly session: string
  readonly socket: Socket
  readonly kept: KeptOutbox
}
const connection = signal<Connection | undefined>(undefined)
/** Replies that a caller waits for; they are not part of the view. */
const waiters = new Map<string, (reply: Reply) => void>()

const subscribe = () => {
  const { cursor, channel: known } = view.value
  const wanted = route.value.channel
  const hasCursor = cursor !== undefined && known === wanted
  connection.value?.socket.send({
    type: "subscribe",
    ...(hasCursor ? { cursor } : {}),
    channel: wanted,
    access: true,
  })
}

const sendUnanswered = () => {
  for (const { message, clientRequestId } of unanswered(view.value))
    connection.value?.socket.send({ ...message, clientRequestId })
}

/** Prompts of an earlier page. The hub knows a repeated one by its id, so sending it again does no harm. */
const openOutbox = (id: string): KeptOutbox =>
  keepOutbox(id, (restored) => {
    if (connection.value?.session !== id) return
    dispatch({ type: "restore", pending: restored })
    sendUnanswered()
  })

const connect = (id: string): Socket =>
  openSocket(`/hub/sessions/${encodeURIComponent(id)}/ws?role=client`, {
    onOpen: () => {
      const wasCut = view.value.link.state === "closed"
      batch(() => {
        retryAt.value = undefined
        login.value = "in"
        dispatch({ type: "link", link: { state: "open" } })
      })
      subscribe()
      sendUnanswered()
      void refreshSessions()
      if (wasCut) void checkVersion()
    },
    onClosed: (wait) => {
      retryAt.value = Date.now() + wait
      if (view.value.link.state !== "closed")
        dispatch({ type: "link", link: { state: "closed", at: Date.now() } })
      for (const [key, settle] of waiters) {
        waiters.delete(key)
        settle(NO_CONNECTION)
      }
      // A refused handshake looks like a cut: an ordinary request tells them apart.
      void refreshSessions()
    },
    onRefused: refuse,
    onEvent: (event) => {
      if (event.type === "access") verbs.value = event.verbs
      else dispatchLater({ type: "event", event })
    },
    onReply: (clientRequestId, reply) => {
      const waiter = waiters.get(clientRequestId)
      waiters.delete(clientRequestId)
      waiter?.(reply)
      if (view.value.outbox.some((one) => one.clientRequestId === clientRequestId))
        dispatchLater({ type: "reply", clientRequestId, reply })
    },
  })

const NO_CONNECTION: Reply = {
  ok: false,
  error: { code: "no-runner", message: "there is no connection" },
}

export const refreshSessions = async (): Promise<void> => {
  const found = await listSessions()
  if (found)
    batch(() => {
      sessions.value = found.sessions
      mayCreate.value = found.mayCreate === true
      newWorkspaces.value = found.workspaces ?? []
      ownerModel.value = found.defaultModel
      maySetModel.value = found.maySetModel === true
    })
  if (found && login.value === "unknown") login.value = "in"
}

const lobby = signal<LobbySocket | undefined>(undefined)

/** Opens the lobby once this browser is logged in. Its first list replaces the one that was read over HTTP. */
const followLobby = () => {
  const open = lobby.peek()
  if (login.value === "in" && open === undefined)
    lobby.value = openLobby(
      (event) => (sessions.value = stepLobby(sessions.peek(), event)),
      () => void refreshSessions(),
    )
  if (login.value !== "refused") return
  open?.close()
  lobby.value = undefined
}

/** Follows the address: another session gets a new connection, another channel a new snapshot. */
export const start = (): void => {
  void refreshSessions()
  effect(() => {
    const { place, session: id } = route.value
    const isRefused = login.value === "refused"
    if (place !== "conversation" || isRefused) return
    const open = connection.peek()
    if (open?.session === id) return
    open?.socket.close()
    batch(() => {
      view.value = emptyView
      isLoaded.value = false
      verbs.value = undefined
      connection.value = { session: id, socket: connect(id), kept: openOutbox(id) }
    })
  })
  effect(() => connection.value?.kept.keep(view.value.outbox))
  effect(followLobby)
  effect(() => {
    const { place, channel: wanted } = route.value
    const { channel: known } = view.peek()
    if (place !== "conversation" || known === undefined || known === wanted) return
    isLoaded.value = false
    subscribe()
  })
  effect(() => {
    const known = sessions.value
    if (route.value.place !== "start" || known === undefined) return
    const last = lastConversation(known)
    if (last) go(pathOf(last), "replace")
    else if (mayCreate.value) void openNewSession("replace")
  })
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return
    connection.value?.socket.retryNow()
    lobby.peek()?.retryNow()
    void refreshSessions()
  })
  addEventListener("online", () => connection.value?.socket.retryNow())
}

const lastConversation = (
  known: readonly ListedSession[],
): { readonly session: string; readonly channel: string } | undefined => {
  const last = readJson<{ session?: string; channel?: string }>("last", {})
  if (last.session && last.channel && known.some(({ id }) => id === last.session))
    return { session: last.session, channel: last.channel }
  const first = known.find(({ parent, status }) => parent === undefined && status !== "ended")
  const newest = first?.channels?.toSorted((a, b) => b.updatedAt - a.updatedAt)[0]
  return first && { session: first.id, channel: newest?.key ?? MAIN_CHANNEL }
}

export const retryNow = (): void => connection.value?.socket.retryNow()

/** Sends a verb once and waits for its reply. Without a connection it is refused at once. */
export const request = (message: Request): Promise<Reply> =>
  new Promise((resolve) => {
    const clientRequestId = crypto.randomUUID()
    waiters.set(clientRequestId, resolve)
    if (connection.value?.socket.send({ ...message, clientRequestId })) return
    waiters.delete(clientRequestId)
    resolve(NO_CONNECTION)
  })

/** Sends a verb that must arrive: it waits for a connection, and is sent again until the hub has replied. */
export const deliver = (wanted: Request): string => {
  const clientRequestId = crypto.randomUUID()
  const message: ClientMessage = { ...wanted, clientRequestId }
  dispatch({ type: "ask", clientRequestId, message, at: Date.now() })
  connection.value?.socket.send(message)
  return clientRequestId
}

export const dropPending = (clientRequestId: string): void =>
  dispatch({ type: "forget", clientRequestId })

export const sendPrompt = (
  content: string,
  more: Pick<Partial<Client<"prompt">>, "model" | "attachments" | "steer"> = {},
): void => {
  deliver({ type: "prompt", content, ...channelFields(route.value.channel), ...more })
}

export const stopTurn = (): void =>
  void request({ type: "abort", ...channelFields(route.value.channel) })

const isLoadingOlder = signal(false)
export const loadOlder = async (): Promise<void> => {
  const { before } = view.value
  if (before === undefined || isLoadingOlder.value) return
  isLoadingOlder.value = true
  const wanted = route.value.channel
  const reply = await request({
    type: "history",
    before,
    limit: 100,
    channel: wanted,
  })
  isLoadingOlder.value = false
  if (reply.ok && wanted === route.value.channel) dispatch({ type: "older", page: reply as never })
}

export const showMessage = async (messageId: string): Promise<boolean> => {
  if (view.value.messages.has(messageId)) return true
  const reply = await request({
    type: "history",
    around: messageId,
    limit: 60,
    channel: route.value.channel,
  })
  if (reply.ok) dispatch({ type: "around", page: reply as never })
  return reply.ok
}

/** Back from a page of the history to the newest messages. */
export const showNewest = (): void => {
  if (view.value.after === undefined) return
  dispatch({ type: "link", link: view.value.link })
  connection.value?.socket.send({
    type: "subscribe",
    channel: route.value.channel,
  })
}

/** The newest change that the person has seen: of the open session as the hub knows it, from every browser. */
export const seenRev = (id: string, key: string): number => {
  const stored = id === route.value.session ? state.value[`seen:${key}`] : undefined
  const rev = (stored as { readonly rev?: unknown } | undefined)?.rev
  return typeof rev === "number" ? rev : (seen.value[`${id}/${key}`] ?? 0)
}

export const keepSeen = (id: string, key: string, rev: number): void => {
  seen.value = { ...seen.value, [`${id}/${key}`]: rev }
  writeStored("seen", JSON.stringify(seen.value))
}

export const markSeen = (): void => {
  const { session: id, channel: key } = route.value
  const rev = view.value.channels.find((one) => one.key === key)?.rev
  if (rev === undefined || seenRev(id, key) >= rev || document.hidden) return
  keepSeen(id, key, rev)
  void request({ type: "seen", rev, channel: key })
}

export const openNewConversation = (): void => {
  if (mayCreate.value) return void openNewSession()
  const known = sessions.value?.find(({ id }) => id === route.value.session) ?? sessions.value?.[0]
  if (known) go(pathOf({ session: known.id, channel: newChannel() }))
}

const isCreating = signal(false)
/** The session that this page has made last. The list of sessions may not name it yet. */
const made = signal<string | undefined>(undefined)
const isSpoken = (): boolean => view.value.messages.size > 0 || view.value.outbox.length > 0
/** Decided at the click: a prompt that is sent while the list is read must not move its writer to another session. */
const isInUnused = (): boolean => {
  const { session: id, place } = route.value
  if (place !== "conversation" || isSpoken() || view.value.channels.length > 0) return false
  return id === made.value || sessions.value?.find((one) => one.id === id)?.channels?.length === 0
}

/** A session without messages is used before another one is made. */
const openNewSession = async (how?: "replace"): Promise<void> => {
  if (isCreating.peek()) return
  if (isInUnused()) return openCreated(route.value.session, undefined, how)
  isCreating.value = true
  await refreshSessions()
  const unused = sessions.value?.find(
    ({ id, channels, parent, status }) =>
      channels?.length === 0 &&
      parent === undefined &&
      status === "running" &&
      !(isSpoken() && id === route.value.session),
  )
  const { id = unused?.id, problem } = unused ? {} : await createSession({})
  isCreating.value = false
  if (id !== undefined) made.value = id
  openCreated(id, problem, how)
}

/** Another agent on the hub's machine, with a session of its own. */
export const openSessionIn = async (workspace: Workspace): Promise<void> => {
  if (isCreating.peek()) return
  isCreating.value = true
  const { id, problem } = await createSession({ workspace })
  await refreshSessions()
  isCreating.value = false
  openCreated(id, problem)
}

const openCreated = (
  id: string | undefined,
  problem: string | undefined,
  how?: "replace",
): void => {
  createProblem.value = problem
  if (id !== undefined) go(pathOf({ session: id, channel: MAIN_CHANNEL }), how)
}
