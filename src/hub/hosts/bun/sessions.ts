/** The sessions of the Bun host. Each is a SQLite file and stays open, so its deadlines and queue go on without a request. */
import { mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { digestOf } from "../../../lib/digest.ts"
import { ACCESS_ENDED, closeLostConnections } from "../../access/close-connections.ts"
import { openConfig, sealConfig } from "../../access/config-at-rest.ts"
import type { Directory } from "../../access/directory.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import { handOver } from "../../access/hand-over.ts"
import { LOCAL_OWNER, type Owner, POOL_OWNER } from "../../access/ownership.ts"
import { createFactsReporter } from "../../access/report-facts.ts"
import { createSessionAccess } from "../../access/session-access.ts"
import { createArtifactObjects } from "../../artifact-objects.ts"
import { type Connections, createConnections } from "../../connections.ts"
import type { StoredFile } from "../../http-api.ts"
import type { ChatServices } from "../../session/chat-services.ts"
import { FinalFailure } from "../../session/final-failure.ts"
import type { Ports, SessionActivity } from "../../session/ports.ts"
import { migrate } from "../../session/schema.ts"
import { createSession } from "../../session/session.ts"
import { createBlobFiles, sizeOf } from "./blob-files.ts"
import { type ChatCalls, createChatCalls } from "./chat-calls.ts"
import type { HostKeyring } from "./host-keyring.ts"
import type { Hub, HubOptions } from "./hub-options.ts"
import { type BunSql, openBunSql } from "./sql.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface OpenSession extends HostedSession {
  readonly connections: Connections
  readonly artifact: (id: string) => Promise<StoredFile | undefined>
  readonly sql: BunSql
  readonly close: () => void
}

export interface SessionsOptions {
  readonly hub: HubOptions
  /** The folder of the host's files. */
  readonly folder: string
  readonly directory: Directory
  readonly keyring: HostKeyring
  /** Sends a text to every socket that has subscribed to the session. */
  readonly publish: (session: string, text: string) => void
  readonly isStopped: () => boolean
}

export interface Sessions {
  readonly find: (id: string) => OpenSession | undefined
  readonly all: () => readonly OpenSession[]
  readonly create: Hub["create"]
  readonly handOver: Hub["handOver"]
  /** Closes the connections of a session that may not read it any more. */
  readonly checkConnections: (id: string) => void
  /** Opens every stored session. */
  readonly restore: () => void
  /** Waits for calls of chat services, and writes what the runners have sent. */
  readonly settle: () => Promise<void>
  readonly close: () => void
}

export const createSessions = (options: SessionsOptions): Sessions => {
  const { hub, folder, directory, keyring, publish, isStopped } = options
  const { clock, log } = hub
  const sessionsFolder = join(folder, "sessions")
  mkdirSync(sessionsFolder, { recursive: true, mode: 0o700 })
  const open = new Map<string, OpenSession>()
  const find = (id: string): OpenSession | undefined => open.get(id)
  const fileOf = (id: string) => join(sessionsFolder, `${encodeURIComponent(id)}.db`)
  const chatCalls = createChatCalls(clock, isStopped)

  const load = (id: string, sql: BunSql, config: string | undefined): OpenSession => {
    // Bun's topics send one text to many sockets much faster than a loop, in the same order.
    const connections = createConnections((text) => publish(id, text))
    const blobs = createBlobFiles(join(folder, "blobs", encodeURIComponent(id)))
    const objects = hub.storage && createArtifactObjects(hub.storage, () => id)
    const alarm = timerAlarm(clock, () => {
      if (!isStopped()) session.alarm()
    })
    const ports: Ports = {
      sql,
      sockets: connections,
      blobs,
      alarm,
      now: clock.now,
      newId: () => crypto.randomUUID(),
      digest: digestOf,
      random: Math.random,
      later: (ms, run) => clock.after(ms, () => (isStopped() ? undefined : run())),
      objects,
      answer: (frame) => hub.answer(id, frame),
      workflowReported: (...report) => {
        if (isStopped()) throw new Error("the hub has stopped")
        hub.workflowReported({ id, session, access }, ...report)
      },
      tellParent: async (parent, report) => {
        const target = find(parent)
        if (target?.access.owner() !== access.owner())
          throw new FinalFailure(`session ${parent} does not exist`)
        target.session.childReported(id, report)
      },
      decideExecution: (decision) => hub.decideExecution(id, decision),
      staysOpen: () => hub.staysOpen?.(id) ?? false,
      ended: () => hub.ended(id),
      seal: (text) => sealConfig(keyring.current(), access.owner(), id, text),
      changed: (urgent) => reportFacts(urgent),
      checkConnections: () => checkConnections(id),
      gitCredentials: () => hub.gitCredentials?.(access.owner()),
      chats: hub.chats && withCalls(hub.chats.port, chatCalls),
      activity: hub.activity && onlyChanges((now) => hub.activity?.(id, now)),
      report: (event, fields) => log.warn(event, { session: id, ...fields }),
    }
    const session = createSession(ports, config)
    const access = createSessionAccess(sql, id, clock.now)
    const reportFacts = createFactsReporter({
      directory,
      session: id,
      owner: access.owner,
      facts: () => ({ ...session.facts(), bytes: sizeOf(fileOf(id)) + blobs.bytes() }),
      account: (account) => {
        if (!isStopped()) session.setOwnerAccount(account)
      },
      later: ports.later,
      failed: (error) => log.warn("hub.facts-not-reported", { session: id, error: String(error) }),
    })
    session.recover([])
    return {
      id,
      session,
      access,
      connections,
      artifact: async (artifact) => {
        const mime = session.artifactType(artifact)
        if (mime === undefined) return undefined
        const body = blobs.read(artifact) ?? (await objects?.get(artifact))
        return body && { mime, body }
      },
      sql,
      close: () => {
        alarm.set(undefined)
        sql.close()
      },
    }
  }

  const openExisting = (id: string): void => {
    const sql = openBunSql(fileOf(id))
    migrate(sql)
    const owner = createSessionAccess(sql, id, clock.now).owner()
    const { text, encrypted } = openConfig(sql, keyring.current(), owner, id)
    // The plain text of before encryption must not stay in free pages of the file.
    if (encrypted) sql.compact()
    open.set(id, load(id, sql, text))
    list(id, owner)
  }
  /** A session of the warm pool is in no list. */
  const list = (id: string, owner: Owner) => {
    if (owner !== POOL_OWNER) void directory.adoptSession(id, owner)
  }
  const checkConnections = (id: string) => {
    const found = find(id)
    if (!found || isStopped()) return
    const { connections } = found
    closeLostConnections(found, connections.people, clock.now(), (connection) =>
      connections.close(connection, ...ACCESS_ENDED),
    )
  }

  return {
    find,
    all: () => [...open.values()],
    create: (id, owner = LOCAL_OWNER, ancestors = [], creator) => {
      const known = find(id)
      if (known) return known.session
      const made = load(id, openBunSql(fileOf(id)), undefined)
      made.access.setOwner(owner, ancestors, creator)
      list(id, owner)
      open.set(id, made)
      return made.session
    },
    handOver: (id, owner, creator) => {
      const found = find(id)
      if (!found) return `there is no session ${id}`
      const refusal = handOver({ ...found, keyring: keyring.current() }, owner, creator)
      if (refusal === undefined) list(id, owner)
      return refusal
    },
    checkConnections,
    restore: () => {
      for (const file of readdirSync(sessionsFolder).filter((name) => name.endsWith(".db")))
        openExisting(decodeURIComponent(file.slice(0, -3)))
    },
    settle: async () => {
      await chatCalls.drain()
      for (const { session } of open.values()) session.runner.flush()
    },
    close: () => {
      for (const session of open.values()) session.close()
      open.clear()
    },
  }
}

/** Commits are frequent; most of them do not change the activity. */
const onlyChanges = (tell: (now: SessionActivity) => void) => {
  let last = ""
  return (now: SessionActivity) => {
    const text = JSON.stringify(now)
    if (text === last) return
    last = text
    tell(now)
  }
}

const withCalls = (port: ChatServices, calls: ChatCalls): ChatServices => ({
  ...port,
  send: (...message) => calls.run(() => port.send(...message)),
  wasSent: (...message) => calls.run(() => port.wasSent(...message)),
})
