/** The ports of a session on the Workers runtime: storage and alarm of its object, and calls to other objects. */
import { z } from "zod"
import { digestOf } from "../../../lib/digest.ts"
import { sealConfig } from "../../access/config-at-rest.ts"
import type { HostedSession } from "../../access/guarded-clients.ts"
import { createFactsReporter } from "../../access/report-facts.ts"
import type { Ports } from "../../session/ports.ts"
import { endAfterWorkflow } from "../../handlers/children.ts"
import { consoleReport } from "./console-report.ts"
import { hasFleet, tellFleet } from "./fleet.ts"
import { callObject, nothing } from "./object-calls.ts"
import type { ObjectContext } from "./object-context.ts"
import { answerRunnerRequest } from "./runner-requests.ts"
import { storeNameOf } from "./shared-store-object.ts"
import { durableSql } from "./sql.ts"

const decisionOutcome = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), status: z.string() }),
  z.object({ ok: z.literal(false), isUnknown: z.boolean(), message: z.string() }),
])

const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

export const sessionPorts = (context: ObjectContext): Ports => {
  const { state, environment, directory } = context
  const { SESSIONS, SHARED_STORE } = environment
  const hosted = (): HostedSession => {
    const found = context.hosted()
    if (!found) throw new Error("the session is not open")
    return found
  }
  const storeName = () => storeNameOf(hosted().access.owner())
  let report: ((urgent: boolean) => void) | undefined
  return {
    sql: durableSql(state),
    sockets: context.sockets,
    blobs: context.blobs,
    alarm: {
      set: (at) =>
        state.waitUntil(
          at === undefined ? state.storage.deleteAlarm() : state.storage.setAlarm(at),
        ),
    },
    now: () => Date.now(),
    newId: () => crypto.randomUUID(),
    digest: digestOf,
    random: Math.random,
    later,
    objects: context.objects,
    seal: (text) => sealConfig(context.keyring(), hosted().access.owner(), hosted().id, text),
    changed: (urgent) => {
      const { id, session, access } = hosted()
      report ??= createFactsReporter({
        directory,
        session: id,
        owner: access.owner,
        facts: () => ({ ...session.facts(), bytes: state.storage.sql.databaseSize }),
        account: session.setOwnerAccount,
        later,
        failed: () => {},
      })
      report(urgent)
    },
    checkConnections: context.checkConnections,
    answer: (frame) => answerRunnerRequest(environment, directory)(hosted(), frame),
    workflowReported: async (...result) => {
      await callObject(SHARED_STORE, storeName(), nothing, "executed", result)
      const [execution, { status }] = result
      const why = endAfterWorkflow(hosted().session, execution, status)
      if (why !== undefined) later(0, () => state.waitUntil(context.end(why)))
    },
    tellFleet: hasFleet(environment)
      ? (activity) => {
          const { id, access } = hosted()
          return tellFleet(environment, { session: id, owner: access.owner(), activity })
        }
      : undefined,
    tellParent: (parent, childReport) =>
      callObject(SESSIONS, parent, nothing, "childReported", [
        storeName(),
        hosted().id,
        childReport,
      ]),
    decideExecution: (decision) =>
      callObject(SHARED_STORE, storeName(), decisionOutcome, "decide", [hosted().id, decision]),
    ended: () => state.waitUntil(context.endChildren()),
    chats: context.chats.port,
    report: consoleReport(context.name),
  }
}
