/** The session's working parts, made once and shared by its two sides: the runner's and the clients'. */
import type { InboundFrame } from "../../wire/frames/index.ts"
import { type Attachments, createAttachments } from "./attachments.ts"
import { type Changes, createChanges } from "./changes.ts"
import { createDeadlines, type Deadlines } from "./deadlines.ts"
import { createInteractions, type Interactions } from "./interactions.ts"
import { createLink, type Link } from "./link.ts"
import { createMessages, type Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { createQueue, type Queue } from "./queue.ts"
import { createState, type State } from "./named-values.ts"
import { createDeltaBatches, type DeltaBatches } from "./delta-batches.ts"

export interface SessionContext {
  readonly ports: Ports
  readonly changes: Changes
  readonly messages: Messages
  readonly words: DeltaBatches
  readonly attachments: Attachments
  readonly queue: Queue
  readonly interactions: Interactions
  readonly link: Link
  readonly deadlines: Deadlines
  readonly state: State
  /** One change of the session: all of it is written, then it is told; or none of it. */
  readonly commit: <Result>(work: () => Result) => Result
  /** A frame for the runner, sent when the transaction is through; nothing when there is no runner. */
  readonly say: (frame: InboundFrame) => void
}

export const createSessionContext = (ports: Ports): SessionContext => {
  const { sql, sockets, now, newId } = ports
  const changes = createChanges(sql, sockets)
  const messages = createMessages(sql, changes, now, newId)
  const words = createDeltaBatches(messages, ports, changes.rev)
  const attachments = createAttachments(ports)
  const link = createLink(sql)
  const deadlines = createDeadlines(sql, ports.alarm)
  let outgoing: InboundFrame[] = []
  return {
    ports,
    changes,
    messages,
    words,
    link,
    deadlines,
    attachments,
    queue: createQueue(ports, changes, attachments),
    interactions: createInteractions(sql, changes, now),
    state: createState(sql, changes),
    commit: (work) => {
      try {
        const result = sql.transaction(() => {
          words.write()
          return work()
        })
        const told = outgoing
        outgoing = []
        words.tell()
        changes.tell()
        const { connection } = link.now()
        if (connection !== null) {
          for (const frame of told) sockets.send(connection, JSON.stringify(frame))
        }
        deadlines.arm()
        attachments.remove()
        return result
      } catch (error) {
        outgoing = []
        attachments.forget()
        words.forget()
        messages.forget()
        link.forget()
        changes.drop()
        throw error
      }
    },
    say: (frame) => void outgoing.push(frame),
  }
}
