/** Prints a text once the agent of a session is ready: what the chat does, where there is no chat. */
import { type AgentState, isAgentReady } from "./agent-ready.ts"
import type { Clock } from "../lib/clock.ts"
import { connectHub, type HubEvent } from "./hub-client.ts"

export interface AnnounceReadyOptions {
  readonly hub: { readonly url: string; readonly token: string }
  readonly session: string
  readonly clock: Clock
  readonly write: (text: string) => void
  readonly text: () => string
}

/** Returns a function that stops waiting. */
export const announceReady = (options: AnnounceReadyOptions): (() => void) => {
  const { hub, session, clock } = options
  let isDone = false
  const check = (agent: AgentState | undefined) => {
    if (!isAgentReady(agent) || isDone) return
    isDone = true
    options.write(`${options.text()}\n`)
    client.close()
  }
  const onEvent = (event: HubEvent) => {
    if (event.type === "snapshot") check((event["state"] as { agent?: AgentState }).agent)
    if (event.type === "state" && event["name"] === "agent") check(event["value"] as AgentState)
  }
  const client = connectHub({
    ...hub,
    session,
    clock,
    onEvent,
    onRefused: () => {},
    patienceMs: Number.POSITIVE_INFINITY,
    onGone: () => {},
  })
  return client.close
}
