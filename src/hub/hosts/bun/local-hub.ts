/** The whole session agent of one machine: sessions, what they share, their children, the git host. */
import { randomBytes } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import type { RequestFrame } from "../../../wire/frames/index.ts"
import { type Hub, startHub } from "./bun-host.ts"
import { openBunSql } from "./sql.ts"
import { channelAddress } from "../../session/channel.ts"
import { digestOf } from "../../../lib/digest.ts"
import { createChildren } from "./children.ts"
import { type SharedStore, createSharedStore } from "../../shared-store/shared-store.ts"
import type { Deliver } from "../../shared-store/effects.ts"
import { createGitHost } from "../../handlers/git-host.ts"
import { localGit } from "./git-host.ts"
import { createExternalHandlers } from "../../handlers/external-requests.ts"
import { takeHook } from "../../shared-store/webhook.ts"
import { answerExternalRequest } from "../../handlers/handler-table.ts"
import { canonical } from "../../handlers/handler-context.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface LocalHubOptions {
  readonly stateDir: string
  /** Where the first session's agent works; children have places of their own. */
  readonly workDir: string
  readonly port: number
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  readonly log: Log
  readonly clientToken: string
  /** How this program is started, when not as itself. */
  readonly self?: readonly string[]
}

export interface LocalHub extends Hub {
  /** Goes on with what an earlier life left: children, triggers, runs. */
  readonly resume: () => Promise<void>
}

export const startLocalHub = async (options: LocalHubOptions): Promise<LocalHub> => {
  const { stateDir, environment, clock, log } = options
  const folder = join(stateDir, "hub")
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const sql = openBunSql(join(folder, "commons.db"))
  let stopped = false

  const deliver: Deliver = async (session, id, effect) => {
    const target = hub.find(session)
    if (!target) throw new Error(`there is no session ${session}`)
    if (effect.do === "order") return target.order(id, effect.frame)
    if (effect.do === "cancel") return target.cancel(effect.executionId)
    const prompt = { type: "prompt", messageId: id, content: effect.content } as const
    target.prompt({ ...prompt, ...channelAddress("web:default") }, "web:default")
  }
  const alarm = timerAlarm(clock, () => {
    if (!stopped) commons.alarm()
  })
  const commons: SharedStore = createSharedStore({
    sql,
    tools: {
      now: clock.now,
      newId: () => crypto.randomUUID(),
      hash: (value) => digestOf(canonical(value)),
    },
    alarm,
    deliver,
    report: (event, fields) => log.warn(event, fields),
  })

  const answer = async (session: string, frame: RequestFrame) =>
    commons.answer(session, frame) ??
    answerExternalRequest(externalHandlers, frame, {
      session,
      requestId: frame.requestId,
    })

  const hub = await startHub({
    stateDir,
    port: options.port,
    clock,
    log,
    clientToken: options.clientToken,
    answer,
    executed: commons.executed,
    ended: (session) => void children.ended(session),
    terminate: (session) => children.terminate(session, "ended by a client"),
    hook: (trigger, request) => takeHook(commons, trigger, request),
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
    personas: () => readPersonas(join(folder, "personas")),
  })

  return {
    ...hub,
    resume: async () => {
      commons.start()
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

/** The compiled program is its own file; from source, it is this runtime and main.ts. */
const ownProgram = (): readonly string[] =>
  import.meta.path.startsWith("/$bunfs/")
    ? [process.execPath]
    : [process.execPath, join(import.meta.dir, "../../..", "main.ts")]

const readMaster = (file: string): string => {
  if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString("hex"), { mode: 0o600 })
  return readFileSync(file, "utf8").trim()
}

/** A persona is a Markdown file: its name is the file's, its first line says what it is. */
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
