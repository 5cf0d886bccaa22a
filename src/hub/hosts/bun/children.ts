/**
 * Child sessions: each has a runner of its own, connected to this hub. The fleet starts it in a sandbox, or this process
 * starts it with a workspace of its own.
 */
import type { Subprocess } from "bun"
import { chmod, mkdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { z } from "zod"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import { channelAddress, MAIN_CHANNEL } from "../../../wire/channel.ts"
import type { Sql } from "../../session/ports.ts"
import { readRow, readRows } from "../../session/rows.ts"
import type { Session } from "../../session/session.ts"
import { gatewayKey, hashOf } from "../../keys.ts"
import { childEnvironment } from "./child-environment.ts"
import { checkOut } from "./check-out-repository.ts"
import { type Children, type Task, wishOf, workspaceOf } from "../../handlers/children-port.ts"
import { checkSource } from "../../handlers/repository-source.ts"
import { nameOfRequest, Refusal } from "../../handlers/handler-table.ts"

export interface ChildrenOptions {
  readonly sql: Sql
  readonly stateDir: string
  /** The command that starts this program. */
  readonly self: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly master: string
  readonly find: (session: string) => Session | undefined
  readonly create: (session: string) => Session
  /** A new session with the owner of its parent. Throws a Refusal at the owner's limit of sessions. */
  readonly createChild: (session: string, parent: string) => Promise<Session>
  /** Why a session may not start child sessions. */
  readonly refusalOf?: (parent: string) => string | undefined
  readonly runnerUrl: (session: string) => string
  readonly clock: Clock
  readonly log: Log
  /** How many child sessions may run at the same time, and how deep below the first session. */
  readonly maxChildren?: number | undefined
  readonly maxDepth?: number | undefined
  /** A fleet gives every session with work a sandbox: no process is started here. */
  readonly hasFleet?: boolean | undefined
}

type Child = Subprocess<"pipe", "ignore", Bun.BunFile>

const childRow = z.object({
  id: z.string(),
  parent: z.string(),
  title: z.string(),
  workspace: z.string(),
  model: z.string().nullable(),
  status: z.enum(["running", "ended"]),
  created_at: z.number(),
})
type ChildRow = z.output<typeof childRow>

const RUNNING = "SELECT * FROM sessions WHERE parent IS NOT NULL AND status = 'running'"

/** They stop an agent that spawns children without end. */
const MAX_RUNNING = 20
const MAX_DEPTH = 3
const STOP_MS = 10_000

export const createChildren = (options: ChildrenOptions): Children => {
  const { sql, log } = options
  const processes = new Map<string, Child>()
  let stopped = false
  const folderOf = (id: string) => join(options.stateDir, "children", encodeURIComponent(id))
  const findChild = (id: string) =>
    readRow(sql, childRow, "SELECT * FROM sessions WHERE id = ? AND parent IS NOT NULL", id)
  const childrenOf = (parent: string) =>
    readRows(sql, childRow, "SELECT * FROM sessions WHERE parent = ? ORDER BY created_at", parent)
  const running = () => readRows(sql, childRow, RUNNING)

  const launch = async ({ id, parent, model }: ChildRow) => {
    // Its queued task is what starts the sandbox.
    if (options.hasFleet === true) return
    const session = options.create(id)
    const token = crypto.randomUUID()
    session.setRunnerToken(await hashOf(token))
    const folder = folderOf(id)
    const child = Bun.spawn([...options.self, "run"], {
      cwd: folder,
      env: {
        ...childEnvironment(options.environment),
        DO_WS_URL: options.runnerUrl(id),
        RUNNER_TOKEN: token,
        SESSION_ID: id,
        PARENT_SESSION_ID: parent,
        JWT_SECRET: await gatewayKey(options.master, id, session.generation()),
        WORK_DIR: join(folder, "workspace"),
        SANDPIPER_STATE_DIR: join(folder, "state"),
        GATEWAY_HOST: "127.0.0.1",
        GATEWAY_PORT: "0",
        OPENCODE_URL: "http://127.0.0.1:0",
        // The child reads the end of this pipe when this process dies, even by SIGKILL, and then stops.
        STOP_WITH_STDIN: "1",
        ...(model !== null && { SANDPIPER_MODEL: model }),
      },
      stdin: "pipe",
      stdout: "ignore",
      stderr: Bun.file(join(folder, "runner.log")),
    })
    processes.set(id, child)
    void watch(id, child)
  }

  const watch = async (id: string, child: Child) => {
    const exitCode = await child.exited
    if (stopped || processes.get(id) !== child) return
    processes.delete(id)
    log.info("child.ended", { child: id, exitCode })
    // Also ends its own children. A session that has completed itself keeps its reason.
    await terminate(id, `its runner ended with exit code ${exitCode}`)
  }

  const stopProcess = async (id: string) => {
    const child = processes.get(id)
    processes.delete(id)
    if (!child) return
    child.kill("SIGTERM")
    const cancel = options.clock.after(STOP_MS, () => child.kill("SIGKILL"))
    await child.exited
    cancel()
  }

  const terminate: Children["terminate"] = async (id, why, how) => {
    // Descendants first: a parent that has ended cannot end them any more.
    await endChildrenOf(id)
    options.find(id)?.terminate(why, how)
    sql.run("UPDATE sessions SET status = 'ended' WHERE id = ?", id)
    await stopProcess(id)
  }

  const endChildrenOf = async (id: string): Promise<void> => {
    for (const child of childrenOf(id)) {
      if (child.status === "running") await terminate(child.id, `ended with ${id}`, { quiet: true })
    }
  }

  const depthOf = (id: string): number => {
    const parent = findChild(id)?.parent
    return parent === undefined ? 0 : depthOf(parent) + 1
  }

  const checkLimits = (parent: string): void => {
    const { maxChildren = MAX_RUNNING, maxDepth = MAX_DEPTH } = options
    const refusal = options.refusalOf?.(parent)
    if (refusal !== undefined) throw new Refusal(refusal)
    if (running().length >= maxChildren)
      throw new Refusal(`${maxChildren} child sessions are running already: end one first`)
    if (depthOf(parent) >= maxDepth)
      throw new Refusal(
        `this session is ${maxDepth} levels below the first one and cannot start child sessions: do the work here`,
      )
  }

  const makeFolders = async (id: string, task: Task) => {
    const workspace = join(folderOf(id), "workspace")
    // A user that the agent runs as must be able to reach its workspace; it cannot list these folders.
    await mkdir(folderOf(id), { recursive: true, mode: 0o711 })
    await chmod(dirname(folderOf(id)), 0o711)
    await mkdir(join(folderOf(id), "state"), { mode: 0o700 })
    await mkdir(workspace, { recursive: true })
    if (task.repoUrl !== undefined) await checkOut(workspace, task, options.environment)
  }

  return {
    terminate,
    spawn: async (parent, requestId, task) => {
      // The runner chooses the request's id: without the parent, another owner's child could be named.
      const name = nameOfRequest(parent, requestId)
      const id = `child-${name}`
      if (findChild(id)) return id
      checkLimits(parent)
      if (options.hasFleet === true) checkSource(task)
      else await makeFolders(id, task)
      const row: ChildRow = {
        id,
        parent,
        title: task.title ?? task.workspace,
        workspace: task.workspace,
        model: task.model ?? null,
        status: "running",
        created_at: options.clock.now(),
      }
      const session = await options.createChild(id, parent)
      await session.configure(options.find(parent)?.config() ?? {})
      session.setTitle(row.title)
      session.setParent(parent)
      session.setWish(wishOf(task))
      // Without a task it waits for a workflow order.
      if (task.task !== "")
        session.prompt(
          {
            type: "prompt",
            messageId: `task-${name}`,
            content: task.task,
            ...(task.model !== undefined && { model: task.model }),
            ...channelAddress(MAIN_CHANNEL),
          },
          MAIN_CHANNEL,
          { fromSession: parent },
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
      options.find(parent)?.childStarted(id, row.title)
      await launch(row)
      return id
    },
    executionEnded: async (executionId, status) => {
      const made = running().find(({ workspace }) => workspace === workspaceOf(executionId))
      if (made) await terminate(made.id, `The workflow run ${executionId} has ended: ${status}.`)
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
      if (findChild(child)?.parent !== parent)
        throw new Refusal(`${child} is not a child of this session`)
    },
    ended: endChildrenOf,
    resume: async () => {
      for (const row of running()) await launch(row)
    },
    stop: async () => {
      stopped = true
      const all = [...processes.keys()]
      await Promise.all(all.map(stopProcess))
    },
  }
}
