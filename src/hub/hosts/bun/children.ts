/** Child sessions: each a runner process of its own, with its own workspace, linked to this very hub. */
import type { Subprocess } from "bun"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import { channelAddress } from "../../../wire/channel.ts"
import { one, type Sql } from "../../session/ports.ts"
import type { Session } from "../../session/session.ts"
import { gatewayKey, hashOf } from "../../keys.ts"
import { checkOut } from "./check-out-repository.ts"
import { Refusal } from "../../handlers/handler-table.ts"

export interface Task {
  readonly task: string
  readonly workspace: string
  readonly repoUrl?: string | undefined
  readonly branch?: string | undefined
  readonly ref?: string | undefined
  readonly title?: string | undefined
  readonly model?: string | undefined
}

export interface ChildrenOptions {
  readonly sql: Sql
  readonly stateDir: string
  /** This very program, as it is started. */
  readonly self: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly master: string
  readonly find: (session: string) => Session | undefined
  readonly create: (session: string) => Session
  readonly runnerUrl: (session: string) => string
  readonly clock: Clock
  readonly log: Log
}

export interface Children {
  /** The same request again is the same child. */
  readonly spawn: (parent: string, requestId: string, task: Task) => Promise<string>
  readonly of: (parent: string) => readonly Record<string, unknown>[]
  readonly mustOwn: (parent: string, child: string) => void
  /** Ends a session's runner and, before it, those of its descendants. */
  readonly terminate: (session: string, why: string) => Promise<void>
  /** Its children go with it. */
  readonly ended: (session: string) => Promise<void>
  /** Starts the runners that ran when an earlier life ended. */
  readonly resume: () => Promise<void>
  /** Every runner is stopped; what they were stays, to be resumed. */
  readonly stop: () => Promise<void>
}

type Child = Subprocess<"pipe", "ignore", Bun.BunFile>

interface ChildRow {
  id: string
  parent: string
  title: string
  workspace: string
  model: string | null
  status: string
  created_at: number
}

/** More would be a mistake rather than a plan. */
const MOST_RUNNING = 20
const STOP_MS = 10_000

export const createChildren = (options: ChildrenOptions): Children => {
  const { sql, log } = options
  const running = new Map<string, Child>()
  let stopped = false
  const folderOf = (id: string) => join(options.stateDir, "children", encodeURIComponent(id))
  const rowOf = (id: string) => one(sql.all<ChildRow>("SELECT * FROM sessions WHERE id = ?", id))
  const childrenOf = (parent: string) =>
    sql.all<ChildRow>("SELECT * FROM sessions WHERE parent = ? ORDER BY created_at", parent)
  const alive = () => sql.all("SELECT 1 FROM sessions WHERE status = 'running'").length

  const launch = async ({ id, model }: ChildRow) => {
    const session = options.create(id)
    const token = crypto.randomUUID()
    session.setRunnerToken(await hashOf(token))
    const folder = folderOf(id)
    const child = Bun.spawn([...options.self, "run"], {
      cwd: folder,
      env: {
        ...passedOn(options.environment),
        DO_WS_URL: options.runnerUrl(id),
        RUNNER_TOKEN: token,
        SESSION_ID: id,
        JWT_SECRET: await gatewayKey(options.master, id, session.generation()),
        WORK_DIR: join(folder, "workspace"),
        SANDPIPER_STATE_DIR: join(folder, "state"),
        GATEWAY_HOST: "127.0.0.1",
        GATEWAY_PORT: "0",
        OPENCODE_URL: "http://127.0.0.1:0",
        // The pipe is held by this process: when it dies, however it dies, the child reads its end and stops.
        STOP_WITH_STDIN: "1",
        ...(model !== null && { SANDPIPER_MODEL: model }),
      },
      stdin: "pipe",
      stdout: "ignore",
      stderr: Bun.file(join(folder, "runner.log")),
    })
    running.set(id, child)
    void watch(id, child)
  }

  const watch = async (id: string, child: Child) => {
    const exitCode = await child.exited
    if (stopped || running.get(id) !== child) return
    running.delete(id)
    log.info("child.ended", { child: id, exitCode })
    sql.run("UPDATE sessions SET status = 'ended' WHERE id = ?", id)
  }

  const halt = async (id: string) => {
    const child = running.get(id)
    running.delete(id)
    if (!child) return
    child.kill("SIGTERM")
    const cancel = options.clock.after(STOP_MS, () => child.kill("SIGKILL"))
    await child.exited
    cancel()
  }

  const terminate = async (id: string, why: string): Promise<void> => {
    // The deepest first: a parent that is gone can stop nobody.
    for (const child of childrenOf(id)) {
      if (child.status === "running") await terminate(child.id, `ended with ${id}`)
    }
    options.find(id)?.terminate(why)
    sql.run("UPDATE sessions SET status = 'ended' WHERE id = ?", id)
    await halt(id)
  }

  return {
    terminate,
    spawn: async (parent, requestId, task) => {
      const id = `child-${requestId}`
      if (rowOf(id)) return id
      if (alive() >= MOST_RUNNING) throw new Refusal(`${MOST_RUNNING} child sessions run already`)
      const workspace = join(folderOf(id), "workspace")
      await mkdir(join(folderOf(id), "state"), { recursive: true, mode: 0o700 })
      await mkdir(workspace, { recursive: true })
      if (task.repoUrl !== undefined) await checkOut(workspace, task)
      const row: ChildRow = {
        id,
        parent,
        title: task.title ?? task.workspace,
        workspace: task.workspace,
        model: task.model ?? null,
        status: "running",
        created_at: options.clock.now(),
      }
      const session = options.create(id)
      session.configure(options.find(parent)?.config() ?? {})
      session.setTitle(row.title)
      session.prompt(
        {
          type: "prompt",
          messageId: `task-${requestId}`,
          content: task.task,
          ...(task.model !== undefined && { model: task.model }),
          ...channelAddress("web:default"),
        },
        "web:default",
      )
      sql.run(
        "INSERT INTO sessions (id, parent, title, workspace, model, status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        row.id,
        row.parent,
        row.title,
        row.workspace,
        row.model,
        row.status,
        row.created_at,
      )
      await launch(row)
      return id
    },
    of: (parent) =>
      childrenOf(parent).map(({ id, title, workspace, status, created_at }) => ({
        ...options.find(id)?.status(),
        id,
        title,
        workspace,
        status,
        createdAt: created_at,
      })),
    mustOwn: (parent, child) => {
      if (rowOf(child)?.parent !== parent) throw new Refusal(`${child} is no child of this session`)
    },
    ended: async (session) => {
      for (const child of childrenOf(session)) {
        if (child.status === "running") await terminate(child.id, `ended with ${session}`)
      }
    },
    resume: async () => {
      for (const row of sql.all<ChildRow>("SELECT * FROM sessions WHERE status = 'running'"))
        await launch(row)
    },
    stop: async () => {
      stopped = true
      const all = [...running.keys()]
      await Promise.all(all.map(halt))
    },
  }
}

/** A child gets the machine and the model keys; tokens of its parent's runner it does not. */
const HIDDEN =
  /^(RUNNER_TOKEN|JWT_SECRET|DO_WS_URL|SESSION_ID|OPENCODE_SERVER_PASSWORD|HUB_PORT|WORK_DIR|SANDPIPER_STATE_DIR)$/

const passedOn = (
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value === undefined || HIDDEN.test(name) ? [] : [[name, value]],
    ),
  )
