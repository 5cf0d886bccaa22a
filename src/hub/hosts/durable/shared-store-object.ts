/** The shared store of a deployment as one Durable Object: tables, triggers and the list of sessions. */
import type { Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import type { ExecutionDecision } from "../../session/ports.ts"
import { routeOf } from "../../session/routes.ts"
import { digestOf } from "../../../lib/digest.ts"
import { consoleReport } from "./console-report.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import { durableSql } from "./sql.ts"
import type { DurableEnvironment, DurableState } from "./runtime-types.ts"
import { type SharedStore as Store, createSharedStore } from "../../shared-store/shared-store.ts"
import { type EffectReceiver, sessionDeliveries } from "../../shared-store/session-deliveries.ts"
import { takeHook } from "../../shared-store/webhook.ts"

export class SharedStore {
  readonly #store: Store
  readonly #state: DurableState

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#state = state
    this.#store = createSharedStore({
      sql: durableSql(state),
      tools: {
        now: () => Date.now(),
        newId: () => crypto.randomUUID(),
        digest: digestOf,
      },
      alarm: {
        set: (at) =>
          state.waitUntil(
            at === undefined ? state.storage.deleteAlarm() : state.storage.setAlarm(at),
          ),
      },
      deliveries: sessionDeliveries((session) => effectReceiver(environment, session)),
      report: consoleReport(() => undefined),
    })
    this.#store.start()
  }

  async fetch(request: Request): Promise<Response> {
    const route = routeOf(request.method, new URL(request.url).pathname, null)
    if (route?.to === "hook") return takeHook(this.#store, route.trigger, request)
    const response = await handleCall(request, {
      // `null`: the request needs more than the tables, the caller handles it.
      answer: (session: string, frame: RequestFrame) => this.#store.answer(session, frame) ?? null,
      executed: (id: string, envelope: Outbound<"workflow-execution-result">["envelope"]) =>
        this.#store.executed(id, envelope),
      decide: (session: string, decision: ExecutionDecision) =>
        this.#store.decide(session, decision),
      created: (session: string) => this.#addSession(session),
      names: () => this.#names(),
    })
    return response ?? new Response("no such route", { status: 404 })
  }

  alarm(): void {
    this.#store.alarm()
  }

  #addSession(session: string): void {
    this.#state.storage.sql.exec(
      "INSERT OR IGNORE INTO sessions (id, title, workspace, status, created_at) VALUES (?, '', '', 'running', ?)",
      session,
      Date.now(),
    )
  }

  #names(): readonly unknown[] {
    return this.#state.storage.sql
      .exec("SELECT id FROM sessions ORDER BY created_at")
      .toArray()
      .map(({ id }) => id)
  }
}

/** The session's object. A session that does not exist refuses every call. */
const effectReceiver = (environment: DurableEnvironment, session: string): EffectReceiver => {
  const call =
    (name: string) =>
    (...args: readonly unknown[]): Promise<void> =>
      callObject(environment.SESSIONS, session, nothing, name, args)
  return {
    orderWorkflow: call("orderWorkflow"),
    cancelWorkflow: call("cancelWorkflow"),
    prompt: call("prompt"),
    note: call("note"),
  }
}
