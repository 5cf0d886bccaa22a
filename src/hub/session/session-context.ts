/** The components of one session, shared by its two sides (runner and clients), and the transaction around them. */
import { type ArtifactMoves, createArtifactMoves } from "./artifact-moves.ts"
import type { InboundFrame } from "../../wire/frames/index.ts"
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import { type Attachments, createAttachments } from "./attachments.ts"
import { type ChangeKind, type Changes, createChanges } from "./changes.ts"
import { type ChildReports, createChildReports } from "./child-reports.ts"
import { type ChatSends, createChatSends } from "./chat-sends.ts"
import { createDeadlines, type Deadlines } from "./deadlines.ts"
import { createInteractions, type Interactions } from "./interactions.ts"
import { createRunnerConnection, type RunnerConnection } from "./runner-connection.ts"
import { createMessages, type Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { createQueue, type Queue } from "./queue.ts"
import { createNamedValues, type NamedValues } from "./named-values.ts"
import { readActivity } from "./activity.ts"
import { countingQueue } from "./counts.ts"
import { createFleetReports } from "./fleet-reports.ts"
import { createSearchIndex } from "./search-index.ts"
import { createBudget, type SessionBudget } from "./budget.ts"
import { createWorkflowReports, type WorkflowReports } from "./workflow-reports.ts"
import { createDeliveries, type Deliveries } from "./deliveries.ts"
import { createDeliveryRows } from "./delivery-rows.ts"
import type { SessionDeliveries } from "./delivery-kinds.ts"
import { createDeltaBatches, type DeltaBatches } from "./delta-batches.ts"

export interface SessionContext {
  readonly ports: Ports
  readonly changes: Changes
  readonly messages: Messages
  readonly deltas: DeltaBatches
  readonly attachments: Attachments
  readonly queue: Queue
  readonly interactions: Interactions
  readonly runnerConnection: RunnerConnection
  readonly deadlines: Deadlines
  readonly values: NamedValues
  readonly childReports: ChildReports
  readonly workflowReports: WorkflowReports
  readonly budget: SessionBudget
  readonly chatSends: ChatSends
  readonly artifactMoves: ArtifactMoves
  readonly deliveries: Deliveries
  /** Runs a change in a transaction. Frames, events and the alarm follow after the commit; a rollback sends nothing. */
  readonly commit: <Result>(work: () => Result) => Result
  /** Sends a frame to the runner after the commit; dropped when no runner is connected. */
  readonly sendToRunner: (frame: InboundFrame) => void
}

/** Changes of these kinds change the session's row in the list of sessions. */
const LISTED: readonly ChangeKind[] = [
  "message",
  "state",
  "usage",
  "artifact",
  "channel",
  "interaction",
]

export const createSessionContext = (ports: Ports, config?: string): SessionContext => {
  const { sql, sockets, now, newId } = ports
  const changes = createChanges(sql, sockets)
  const messages = createMessages(sql, changes, now, newId, createSearchIndex(sql))
  const deltas = createDeltaBatches(messages, ports, changes.rev)
  const attachments = createAttachments(ports)
  const runnerConnection = createRunnerConnection(sql)
  const deadlines = createDeadlines(sql, ports.alarm, () => deliveries.nextAlarm())
  const values = createNamedValues(sql, changes, config)
  const rows = createDeliveryRows<SessionDeliveries>({ sql, now, changed: deadlines.touch })
  const childReports = createChildReports(ports, values, rows)
  const workflowReports = createWorkflowReports(ports, messages, rows)
  const artifactMoves = createArtifactMoves(ports, rows)
  const chatSends = createChatSends({
    ports,
    messages,
    deliveries: rows,
    released: artifactMoves.add,
  })
  const fleetReports = createFleetReports(ports, values, messages, rows, () =>
    readActivity(context),
  )
  const deliveries = createDeliveries<SessionDeliveries>({
    rows,
    kinds: {
      "child-report": childReports.kind,
      "workflow-report": workflowReports.kind,
      "fleet-report": fleetReports.kind,
      "chat-message": chatSends.kind,
      "artifact-move": artifactMoves.kind,
    },
    now,
    random: ports.random,
    commit: (work) => context.commit(work),
    unreadable: (lane, id) => {
      const error = `a stored message (${lane}) could not be read and is lost`
      messages.add("system", { channel: MAIN_CHANNEL, content: "", error }, { id: `lost-${id}` })
    },
    report: ports.report,
  })
  let outgoing: InboundFrame[] = []
  const context: SessionContext = {
    ports,
    changes,
    messages,
    deltas,
    runnerConnection,
    deadlines,
    attachments,
    queue: countingQueue(createQueue(ports, changes, attachments), values),
    interactions: createInteractions(sql, changes, now),
    values,
    childReports,
    workflowReports,
    budget: createBudget(sql, values),
    chatSends,
    artifactMoves,
    deliveries: {
      ...deliveries,
      start: () => {
        sql.transaction(() => {
          deliveries.start()
          fleetReports.check()
          artifactMoves.addStored(chatSends.artifacts())
        })
      },
    },
    commit: (work) => {
      try {
        const result = sql.transaction(() => {
          deltas.write()
          const done = work()
          fleetReports.check()
          return done
        })
        const frames = outgoing
        outgoing = []
        deltas.broadcast()
        const kinds = changes.broadcast()
        const { connection } = runnerConnection.state()
        if (connection !== null) {
          for (const frame of frames) sockets.send(connection, JSON.stringify(frame))
        }
        deadlines.arm()
        attachments.deleteReleased()
        if (LISTED.some((kind) => kinds.has(kind))) ports.changed(kinds.has("usage"))
        if (ports.activity) ports.activity(readActivity(context))
        void deliveries.send()
        return result
      } catch (error) {
        outgoing = []
        attachments.rollBack()
        deltas.discard()
        messages.discardCache()
        runnerConnection.discardCache()
        changes.rollBack()
        throw error
      }
    },
    sendToRunner: (frame) => void outgoing.push(frame),
  }
  return context
}
