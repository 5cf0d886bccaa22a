/** Child sessions of Durable Objects: each is an object of its own, and the fleet gives it a sandbox for its task. */
import { z } from "zod"
import type { Directory } from "../../access/directory.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import { createChildren } from "../../handlers/children.ts"
import type { Children } from "../../handlers/children-port.ts"
import { sessionStatus } from "../../session/session-facts.ts"
import { consoleReport } from "./console-report.ts"
import { hasFleet } from "./fleet.ts"
import { callObject, nothing } from "./object-calls.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

export const NO_SANDBOXES =
  "this deployment cannot start sandboxes: create a session and start a runner for it"

const numberOf = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,4}$/.test(text) ? Number(text) : undefined

const optionalTarget = z.object({ ancestors: z.array(z.string()) }).nullable()

/** The children of one session, which is the object that runs this. */
export const durableChildren = (
  environment: DurableEnvironment,
  directory: Directory,
  hosted: HostedSession,
): Children => {
  const { SESSIONS, MAX_CHILDREN, MAX_CHILD_DEPTH } = environment
  return createChildren({
    find: () => hosted,
    directory,
    sessions: {
      provision: (child, ...fields) =>
        callObject(SESSIONS, child, nothing, "provision", [child, ...fields]),
      prompt: (child, ...prompt) => callObject(SESSIONS, child, nothing, "prompt", prompt),
      status: (child) => callObject(SESSIONS, child, sessionStatus, "status", []),
      parentOf: async (child) =>
        (await callObject(SESSIONS, child, optionalTarget, "target", []))?.ancestors[0],
      terminate: (child, owner, why, quiet) =>
        callObject(SESSIONS, child, nothing, "terminate", [owner, why, quiet]),
    },
    limits: { maxChildren: numberOf(MAX_CHILDREN), maxDepth: numberOf(MAX_CHILD_DEPTH) },
    refusalOf: () => (hasFleet(environment) ? undefined : NO_SANDBOXES),
    report: consoleReport(() => hosted.id),
  })
}
