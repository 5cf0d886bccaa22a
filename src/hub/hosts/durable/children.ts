/** Child sessions of Durable Objects: each is an object of its own, and the fleet gives it a sandbox for its task. */
import { channelAddress, MAIN_CHANNEL } from "../../../wire/channel.ts"
import type { Directory } from "../../access/directory.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import { problemOfNewChild } from "../../handlers/child-limits.ts"
import { nameOfRequest, Refusal } from "../../handlers/handler-table.ts"
import { checkSource } from "../../handlers/repository-source.ts"
import { sessionStatus } from "../../session/session-facts.ts"
import { childConfigOf, type Children, taskTextOf, wishOf } from "../../handlers/children-port.ts"
import type { Ports } from "../../session/ports.ts"
import { consoleReport } from "./console-report.ts"
import { callObject, nothing } from "./object-calls.ts"
import { hasFleet } from "./fleet.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

export const NO_SANDBOXES =
  "this deployment cannot start sandboxes: create a session and start a runner for it"

const numberOf = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,4}$/.test(text) ? Number(text) : undefined

/** The children of one session, which is the object that runs this. */
export const durableChildren = (
  environment: DurableEnvironment,
  directory: Directory,
  { id: parent, session, access }: HostedSession,
  report: Ports["report"] = consoleReport(() => parent),
): Pick<Children, "spawn" | "of" | "mustOwn" | "terminate"> & {
  readonly endAll: () => Promise<void>
} => {
  const { SESSIONS } = environment
  const mustKnow = (child: string): void => {
    if (!session.children().some(({ id }) => id === child))
      throw new Refusal(`${child} is not a child of this session`)
  }
  const end = (child: string, why: string, quiet: boolean) =>
    callObject(SESSIONS, child, nothing, "terminate", [access.owner(), why, quiet])

  const checkLimits = (): void => {
    if (!hasFleet(environment)) throw new Refusal(NO_SANDBOXES)
    const depth = (access.target().ancestors ?? []).length
    const problem = problemOfNewChild(session.children(), depth, {
      maxChildren: numberOf(environment.MAX_CHILDREN),
      maxDepth: numberOf(environment.MAX_CHILD_DEPTH),
    })
    if (problem !== undefined) throw new Refusal(problem)
  }

  return {
    spawn: async (_parent, requestId, task) => {
      const name = nameOfRequest(parent, requestId)
      const child = `child-${name}`
      if (session.children().some(({ id }) => id === child)) return child
      checkLimits()
      checkSource(task)
      const title = task.title ?? task.workspace
      const owner = access.owner()
      const added = await directory.addSession(child, owner, parent)
      // Taken: an earlier attempt of the same request was interrupted. All of it can be repeated.
      if (!added.ok && "sentence" in added) throw new Refusal(added.sentence)
      const ancestors = [parent, ...(access.target().ancestors ?? [])]
      const provision = {
        ancestors,
        creator: access.creator(),
        ...(task.title === undefined ? { firstTitle: title } : { title }),
        config: childConfigOf(session.config(), task.persona),
        wish: wishOf(task),
      }
      await callObject(SESSIONS, child, nothing, "provision", [child, owner, provision])
      if (task.task !== "") {
        const prompt = {
          type: "prompt",
          messageId: `task-${name}`,
          content: taskTextOf(task),
          ...(task.model !== undefined && { model: task.model }),
          ...channelAddress(MAIN_CHANNEL),
        }
        const options = { fromSession: parent }
        await callObject(SESSIONS, child, nothing, "prompt", [prompt, MAIN_CHANNEL, options])
      }
      session.childStarted(child, title)
      return child
    },
    of: () =>
      Promise.all(
        session.children().map(async ({ id, title, status }) => ({
          ...(await callObject(SESSIONS, id, sessionStatus, "status", []).catch(() => ({}))),
          id,
          title,
          status,
        })),
      ),
    mustOwn: (_parent, child) => mustKnow(child),
    terminate: (child, why, how) => end(child, why, how?.quiet ?? false),
    endAll: async () => {
      for (const { id, status } of session.children())
        if (status === "running")
          await end(id, `ended with ${parent}`, true).catch((error: unknown) =>
            report("hub.child-not-ended", { child: id, error: String(error) }),
          )
    },
  }
}
