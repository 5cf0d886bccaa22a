/** The child sessions of a session: started for a task or a workflow, told to their parent, ended with it. */
import { channelAddress, MAIN_CHANNEL } from "../../wire/channel.ts"
import type { Directory } from "../access/directory.ts"
import type { HostedSession } from "../access/guarded-clients.ts"
import type { Owner } from "../access/ownership.ts"
import type { Provision } from "../provision.ts"
import type { Session } from "../session/session.ts"
import { type ChildLimits, problemOfNewChild } from "./child-limits.ts"
import {
  childConfigOf,
  type Children,
  type LocalChildren,
  type Task,
  taskTextOf,
  wishOf,
} from "./children-port.ts"
import { nameOfRequest, Refusal } from "./handler-table.ts"
import { checkSource } from "./repository-source.ts"

type Later<T> = T | Promise<T>

/** Another session, wherever it is. */
export interface ChildSessions {
  readonly provision: (child: string, owner: Owner, fields: Provision) => Promise<void>
  readonly prompt: (child: string, ...prompt: Parameters<Session["prompt"]>) => Later<void>
  readonly status: (child: string) => Later<Readonly<Record<string, unknown>>>
  /** The session that it was started from; undefined for a session that is no child or does not exist. */
  readonly parentOf: (child: string) => Later<string | undefined>
  /** Ends it, with its own children first. Only of this owner. */
  readonly terminate: (child: string, owner: Owner, why: string, quiet: boolean) => Promise<void>
}

export interface ChildrenOptions {
  readonly find: (session: string) => HostedSession | undefined
  readonly directory: Pick<Directory, "addSession">
  readonly sessions: ChildSessions
  readonly limits: ChildLimits
  /** Why this session may not have children here; undefined if it may. */
  readonly refusalOf: (parent: HostedSession) => string | undefined
  /** Children that run on the hub's own machine. Absent: the fleet starts a sandbox for the work of a child. */
  readonly local?: LocalChildren | undefined
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

export const createChildren = ({
  find,
  directory,
  sessions,
  limits,
  refusalOf,
  local,
  report,
}: ChildrenOptions): Children => {
  const mustFind = (id: string): HostedSession => {
    const found = find(id)
    if (!found) throw new Refusal(`there is no session ${id}`)
    return found
  }
  const checkLimits = (parent: HostedSession): void => {
    const depth = (parent.access.target().ancestors ?? []).length
    const problem = refusalOf(parent) ?? problemOfNewChild(parent.session.children(), depth, limits)
    if (problem !== undefined) throw new Refusal(problem)
  }

  const make = async (
    { id: parent, session, access }: HostedSession,
    name: string,
    task: Task,
  ): Promise<string> => {
    const child = `child-${name}`
    const title = task.title ?? task.workspace
    const owner = access.owner()
    const added = await directory.addSession(child, owner, parent)
    // Taken: an earlier attempt of the same request was interrupted. All of it can be repeated.
    if (!added.ok && "sentence" in added) throw new Refusal(added.sentence)
    const wish = wishOf(task)
    await sessions.provision(child, owner, {
      ancestors: [parent, ...(access.target().ancestors ?? [])],
      creator: access.creator(),
      ...(task.title === undefined ? { firstTitle: title } : { title }),
      config: childConfigOf(session.config(), task.persona),
      wish,
    })
    // Without a task it waits for a workflow order.
    if (task.task !== "")
      await sessions.prompt(
        child,
        {
          type: "prompt",
          messageId: `task-${name}`,
          content: taskTextOf(task),
          ...(task.model !== undefined && { model: task.model }),
          ...channelAddress(MAIN_CHANNEL),
        },
        MAIN_CHANNEL,
        { fromSession: parent },
      )
    session.childStarted(child, title, task.workspace)
    await local?.start({ id: child, parent, model: task.model ?? null })
    return child
  }

  return {
    spawn: async (parent, requestId, task) => {
      const from = mustFind(parent)
      // The runner chooses the request's id: without the parent, another owner's child could be named.
      const name = nameOfRequest(parent, requestId)
      const child = `child-${name}`
      if (from.session.children().some(({ id }) => id === child)) return child
      checkLimits(from)
      checkSource(task)
      await local?.prepare(child, task)
      return make(from, name, task)
    },
    of: (parent) =>
      Promise.all(
        mustFind(parent)
          .session.children()
          .map(async ({ id, title, status, workspace, createdAt }) => ({
            ...(await Promise.resolve(sessions.status(id)).catch(() => ({}))),
            id,
            title,
            status,
            ...(workspace !== undefined && { workspace }),
            ...(createdAt !== undefined && { createdAt }),
          })),
      ),
    terminate: async (parent, child, why) => {
      const { session, access } = mustFind(parent)
      const isListed = session.children().some(({ id }) => id === child)
      // The list holds what the runner has reported, too, and a person can make a session below this one: both must say it.
      if (!isListed || (await sessions.parentOf(child)) !== parent)
        throw new Refusal(`${child} is not a child of this session`)
      await sessions.terminate(child, access.owner(), why, true)
    },
    endAll: async (parent) => {
      const { session, access } = mustFind(parent)
      for (const { id, status } of session.children())
        if (status === "running")
          await sessions
            .terminate(id, access.owner(), `ended with ${parent}`, true)
            .catch((error: unknown) =>
              report("hub.child-not-ended", { child: id, error: String(error) }),
            )
    },
  }
}

/** Why a session ends with this report of its workflow run: it was made for the run and has nothing else to do. */
export const endAfterWorkflow = (
  session: Pick<Session, "wish">,
  execution: string,
  status: string,
): string | undefined =>
  session.wish()?.isForWorkflow === true && status !== "needs_approval"
    ? `The workflow run ${execution} has ended: ${status}.`
    : undefined
