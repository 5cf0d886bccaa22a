/**
 * Plays a random turn against a session: a model of the runner (parts, retries, failover, an outbox that sends again what
 * is not stored) and of a client. Without anything of Bun, so that it runs on workerd too.
 */
import type { Sql } from "../../../src/hub/session/ports.ts"
import { createSession, type Session } from "../../../src/hub/session/session.ts"
import type { MessagePart, NumberedEvent } from "../../../src/wire/clients/conversation.ts"

export type TurnStep =
  | { readonly do: "delta" | "reasoning"; readonly part: number; readonly text: string }
  | { readonly do: "tool" }
  | { readonly do: "retry" }
  | { readonly do: "failover" }
  /** The connection is cut; `lost` frames were sent and did not arrive. */
  | { readonly do: "cut"; readonly lost: number }
  /** The host is killed and starts again with its rows. */
  | { readonly do: "kill" }
  /** Timers run: buffered deltas are written. */
  | { readonly do: "wait" }
  /** The client disconnects and comes back with its cursor. */
  | { readonly do: "resume" }

export interface PlayedMessage {
  readonly id: string
  readonly finalText: string
  readonly stored: string
  readonly client: string
}

export interface PlayedTurn {
  readonly messages: readonly PlayedMessage[]
  /** Names of the values in the snapshot that begin with `retry:`. */
  readonly retryStates: readonly string[]
}

interface Part {
  readonly id: string
  readonly kind: "text" | "reasoning"
  text: string
}

const EPOCH = "epoch-1"
const PROMPT = { messageId: "prompt-1", channelType: "web", channelId: "default" }

export const playTurn = (sql: Sql, steps: readonly TurnStep[]): PlayedTurn => {
  let timers: (() => void)[] = []
  let connection = 0
  let isCut = false
  let ids = 0
  let welcomed: number | undefined
  let lost = 0
  const outbox: object[] = []
  const client = createClientModel()

  const open = (): Session =>
    createSession({
      sql,
      sockets: {
        send: (to, text) => {
          const frame: Record<string, unknown> = JSON.parse(text)
          if (to === "client") return client.receive(frame)
          if (frame["type"] === "welcome") welcomed = Number(frame["lastSeq"])
        },
        broadcast: (text) => client.receive(JSON.parse(text)),
        subscribe: () => {},
        close: (id) => {
          if (id === `runner-${connection}`) isCut = true
        },
      },
      blobs: { put: () => {}, get: () => undefined, remove: () => {}, ids: () => [] },
      alarm: { set: () => {} },
      now: () => 1,
      newId: () => {
        ids += 1
        return `id-${ids}`
      },
      digest: (text) => text,
      random: () => 0,
      later: (_ms, run) => {
        timers.push(run)
        return () => {
          timers = timers.filter((other) => other !== run)
        }
      },
      answer: () => Promise.reject(new Error("a turn has no requests")),
      workflowReported: () => {},
      decideExecution: () => Promise.reject(new Error("this test expects no decision")),
      ended: () => {},
      tellParent: async () => {},
      seal: (text) => text,
      changed: () => {},
      checkConnections: () => {},
      report: () => {},
    })
  let session = open()

  const runTimers = () => {
    const due = timers
    timers = []
    for (const run of due) run()
  }
  const transmit = (index: number) => {
    const frame = { ...outbox[index], seq: index + 1 }
    session.runner.receive(`runner-${connection}`, JSON.stringify(frame))
  }
  const connect = () => {
    connection += 1
    isCut = false
    welcomed = undefined
    session.runner.opened(`runner-${connection}`)
    session.runner.receive(
      `runner-${connection}`,
      JSON.stringify({
        type: "hello",
        protocol: 2,
        runner: { name: "test", version: "0" },
        sessionId: "s",
        epoch: EPOCH,
        nextSeq: 1,
        active: [{ messageId: PROMPT.messageId, channelKey: "web:default", turnId: "t" }],
      }),
    )
    for (let index = welcomed ?? 0; index < outbox.length; index += 1) transmit(index)
    if (isCut) connect()
  }
  const send = (frame: object) => {
    outbox.push(frame)
    if (lost > 0) {
      lost -= 1
      return
    }
    if (isCut) connect()
    else transmit(outbox.length - 1)
  }

  let attempt = 1
  let parts: Part[] = []
  let made = 0
  let retries = 0
  const finals = new Map<string, string>()
  const turnId = () => `turn-${attempt}`
  const address = () => ({ ...PROMPT, turnId: turnId() })
  const finalize = (reason: "end_turn" | "error") => {
    const finalText = parts.flatMap(({ kind, text }) => (kind === "text" ? [text] : [])).join("")
    finals.set(turnId(), finalText)
    send({ type: "message.finalize", reason, finalText, ...address() })
  }
  const grow = (kind: Part["kind"], place: number, text: string) => {
    const same = parts.filter((part) => part.kind === kind)
    let part = same[place]
    if (!part) {
      made += 1
      part = { id: `part-${made}`, kind, text: "" }
      parts.push(part)
    }
    part.text += text
    const type = kind === "text" ? "message.part.text-delta" : "message.part.reasoning-delta"
    send({ type, partId: part.id, delta: text, ...address() })
  }

  const play = (step: TurnStep): void => {
    switch (step.do) {
      case "delta":
        return grow("text", step.part, step.text)
      case "reasoning":
        return grow("reasoning", step.part, step.text)
      case "tool":
        made += 1
        return send({
          type: "message.part.tool-update",
          callId: `call-${made}`,
          toolName: "bash",
          status: "completed",
          ...address(),
        })
      case "retry": {
        const droppedParts = parts.map(({ id }) => id)
        parts = []
        retries += 1
        return send({
          type: "retry",
          attempt: retries,
          next: retries,
          message: "overloaded",
          ...(droppedParts.length > 0 && { droppedParts }),
          ...address(),
        })
      }
      case "failover":
        finalize("error")
        attempt += 1
        parts = []
        return send({ type: "message.create", ...address() })
      case "cut":
        lost = step.lost
        session.runner.closed(`runner-${connection}`)
        return connect()
      case "kill":
        timers = []
        session = open()
        session.recover([])
        // What was broadcast and not written is gone: a client has to resume.
        subscribe()
        return connect()
      case "wait":
        return runTimers()
      case "resume":
        return subscribe()
    }
  }
  const subscribe = () => session.clients.subscribe("client", { cursor: client.cursor() })

  session.clients.subscribe("client", {})
  connect()
  send({ type: "message.create", ...address() })
  for (const step of steps) play(step)
  finalize("end_turn")
  send({ type: "complete", ...PROMPT })
  lost = 0
  session.runner.closed(`runner-${connection}`)
  connect()
  runTimers()
  const snapshot = session.snapshot()
  return {
    messages: [...finals].map(([id, finalText]) => ({
      id,
      finalText,
      stored: textOf(snapshot.messages.find((message) => message.id === id)?.parts ?? []),
      client: textOf(client.parts(id)),
    })),
    retryStates: Object.keys(snapshot.state).filter((name) => name.startsWith("retry:")),
  }
}

const textOf = (parts: readonly MessagePart[]): string =>
  parts.flatMap(({ kind, text }) => (kind === "text" ? [text ?? ""] : [])).join("")

interface ClientModel {
  readonly receive: (event: Record<string, unknown>) => void
  readonly cursor: () => number
  readonly parts: (messageId: string) => readonly MessagePart[]
}

const createClientModel = (): ClientModel => {
  const messages = new Map<string, MessagePart[]>()
  let cursor = 0
  const partsOf = (id: string) => {
    const parts = messages.get(id) ?? []
    messages.set(id, parts)
    return parts
  }
  const apply = (event: NumberedEvent) => {
    cursor = Math.max(cursor, event.rev)
    if (event.type === "part") {
      const parts = partsOf(event.messageId)
      const index = parts.findIndex(({ id }) => id === event.part.id)
      if (index === -1) parts.push(event.part)
      else parts[index] = event.part
    }
    if (event.type === "part.removed") {
      const parts = partsOf(event.messageId).filter(({ id }) => id !== event.partId)
      messages.set(event.messageId, parts)
    }
    if (event.type === "part.delta") {
      const part = partsOf(event.messageId).find(({ id }) => id === event.partId)
      const known = part?.text ?? ""
      const { offset, text } = event
      if (part && offset <= known.length)
        part.text = known.slice(0, offset) + text + known.slice(offset + text.length)
    }
  }
  return {
    receive: (event) => {
      if (event["type"] === "snapshot") {
        cursor = Number(event["rev"])
        messages.clear()
        for (const { id, parts } of event["messages"] as { id: string; parts: MessagePart[] }[])
          messages.set(id, parts)
      } else if (event["type"] === "changes") {
        for (const change of event["events"] as NumberedEvent[]) apply(change)
        cursor = Math.max(cursor, Number(event["rev"]))
      } else if (event["rev"] !== undefined) apply(event as unknown as NumberedEvent)
    },
    cursor: () => cursor,
    parts: partsOf,
  }
}
