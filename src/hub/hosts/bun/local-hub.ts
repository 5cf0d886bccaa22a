/** The complete session agent of one machine: sessions, their shared store, child sessions and the git host. */
import { randomBytes } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { type Hub, startHub } from "./bun-host.ts"
import { openBunSql } from "./sql.ts"
import { digestOf } from "../../../lib/digest.ts"
import { configureChats } from "../../adapters/configured-chats.ts"
import { createChildren } from "./children.ts"
import { type SharedStore, createSharedStore } from "../../shared-store/shared-store.ts"
import { sessionDeliveries } from "../../shared-store/session-deliveries.ts"
import { createGitHost } from "../../handlers/git-host.ts"
import { hasGitHost, localGit } from "./git-host.ts"
import { toolSwitchesOf } from "../../tool-switches.ts"
import { createExternalHandlers } from "../../handlers/external-requests.ts"
import { takeHook } from "../../shared-store/webhook.ts"
import { answerExternalRequest } from "../../handlers/handler-table.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface LocalHubOptions {
  readonly stateDir: string
  /** The workspace of the first session; child sessions have their own. */
  readonly workDir: string
  readonly port: number
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  readonly log: Log
  readonly clientToken: string
  /** Origins of web pages that may call the hub, besides its own. */
  readonly allowedOrigins?: readonly string[] | undefined
  /** Takes messages of chat services that name no session. */
  readonly chatSession?: (() => string) | undefined
  /** The command that starts this program, if it is not the running executable. */
  readonly self?: readonly string[]
}

export interface LocalHub extends Hub {
  /** Continues after a restart: children, triggers, workflow runs. */
  readonly resume: () => Promise<void>
  /** For a session's config: tools off that this hub cannot serve, and on that it has something for. */
  readonly toolSwitches: () => Readonly<Record<string, boolean>>
}

export const startLocalHub = async (options: LocalHubOptions): Promise<LocalHub> => {
  const { stateDir, environment, clock, log } = options
  const folder = join(stateDir, "hub")
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // The name of the file is older than the name of the store; existing state directories have it.
  const sql = openBunSql(join(folder, "commons.db"))
  let stopped = false

  const alarm = timerAlarm(clock, () => {
    if (!stopped) sharedStore.alarm()
  })
  const sharedStore: SharedStore = createSharedStore({
    sql,
    tools: {
      now: clock.now,
      newId: () => crypto.randomUUID(),
      digest: digestOf,
    },
    alarm,
    deliveries: sessionDeliveries((session) => hub.find(session)),
    report: (event, fields) => log.warn(event, fields),
  })

  const answer = async (session: string, frame: RequestFrame) =>
    sharedStore.answer(session, frame) ??
    answerExternalRequest(externalHandlers, frame, {
      session,
      requestId: frame.requestId,
    })

  const chats = configureChats({
    environment,
    now: clock.now,
    defaultSession: options.chatSession,
  })
  const hub = await startHub({
    chats,
    stateDir,
    port: options.port,
    clock,
    log,
    clientToken: options.clientToken,
    ...(options.allowedOrigins && { allowedOrigins: options.allowedOrigins }),
    answer,
    workflowReported: sharedStore.executed,
    decideExecution: async (session, decision) => sharedStore.decide(session, decision),
    ended: (session) => void children.ended(session),
    terminate: (session) => children.terminate(session, "ended by a client"),
    hook: (trigger, request) => takeHook(sharedStore, trigger, request),
  })
  const children = createChildren({
    sql,
    stateDir,
    self: options.self ?? ownProgram(),
    environment,
    master: readMaster(join(folder, "master.key")),
    find: hub.find,
    create: hub.create,
    runnerUrl: hub.runnerUrl,
    clock,
    log,
  })
  const externalHandlers = createExternalHandlers({
    find: async (session) => hub.find(session),
    children,
    git: createGitHost(
      localGit({
        environment,
        workDir: (session) => {
          const own = join(stateDir, "children", encodeURIComponent(session), "workspace")
          return existsSync(own) ? own : options.workDir
        },
      }),
    ),
    chatProblem: chats.problemOf,
    personas: () => readPersonas(join(folder, "personas")),
  })

  return {
    ...hub,
    toolSwitches: () =>
      toolSwitchesOf({
        hasGitHost: hasGitHost(environment),
        hasWorkflows: sql.all("SELECT id FROM workflows LIMIT 1").length > 0,
      }),
    resume: async () => {
      sharedStore.start()
      await children.resume()
    },
    stop: async () => {
      stopped = true
      alarm.set(undefined)
      await children.stop()
      await hub.stop()
      sql.close()
    },
  }
}

/** The compiled program is one file; from source it is the Bun executable with main.ts. */
const ownProgram = (): readonly string[] =>
  import.meta.path.startsWith("/$bunfs/")
    ? [process.execPath]
    : [process.execPath, join(import.meta.dir, "../../..", "main.ts")]

const readMaster = (file: string): string => {
  if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString("hex"), { mode: 0o600 })
  return readFileSync(file, "utf8").trim()
}

/** A persona is a Markdown file: the file name is its name, the first line its description. */
const readPersonas = (folder: string): readonly Record<string, unknown>[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((file) => file.endsWith(".md"))
        .toSorted()
        .map((file) => {
          const content = readFileSync(join(folder, file), "utf8")
          const slug = file.slice(0, -3)
          const description = content.split("\n", 1)[0]?.replace(/^#+\s*/, "") ?? ""
          return { id: slug, slug, name: slug, description, content }
        })
    : []
