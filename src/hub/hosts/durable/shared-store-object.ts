/** What all sessions of a deployment share, in one Durable Object: tables, triggers, the list of sessions. */
import type { Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import { channelAddress } from "../../../wire/channel.ts"
import { routeOf } from "../../session/routes.ts"
import { digestOf } from "../../../lib/digest.ts"
import { callObject, takeCall } from "./object-calls.ts"
import { durableSql } from "./sql.ts"
import type { DurableEnvironment, DurableState } from "./runtime-types.ts"
import {
  type SharedStore as CommonTables,
  createSharedStore,
} from "../../shared-store/shared-store.ts"
import { takeHook } from "../../shared-store/webhook.ts"
import { canonical } from "../../handlers/handler-context.ts"

export class Commons {
  readonly #tables: CommonTables
  readonly #state: DurableState

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#state = state
    this.#tables = createSharedStore({
      sql: durableSql(state),
      tools: {
        now: () => Date.now(),
        newId: () => crypto.randomUUID(),
        hash: (value) => digestOf(canonical(value)),
      },
      alarm: {
        set: (at) =>
          state.waitUntil(
            at === undefined ? state.storage.deleteAlarm() : state.storage.setAlarm(at),
          ),
      },
      deliver: (session, id, effect) => {
        const call = (name: string, ...args: readonly unknown[]) =>
          callObject<void>(environment.SESSIONS, session, name, args)
        if (effect.do === "order") return call("order", id, effect.frame)
        if (effect.do === "cancel") return call("cancel", effect.executionId)
        const prompt = { type: "prompt", messageId: id, content: effect.content }
        return call("prompt", { ...prompt, ...channelAddress("web:default") }, "web:default")
      },
      report: () => {},
    })
    this.#tables.start()
  }

  async fetch(request: Request): Promise<Response> {
    const route = routeOf(request.method, new URL(request.url).pathname, null)
    if (route?.to === "hook") return takeHook(this.#tables, route.trigger, request)
    const answer = await takeCall(request, {
      // Whether it is answered at all: some requests need more than tables.
      answer: (session: string, frame: RequestFrame) => this.#tables.answer(session, frame) ?? null,
      executed: (id: string, envelope: Outbound<"workflow-execution-result">["envelope"]) =>
        this.#tables.executed(id, envelope),
      made: (session: string) => this.#remember(session),
      names: () => this.#names(),
    })
    return answer ?? new Response("there is nothing here", { status: 404 })
  }

  alarm(): void {
    this.#tables.alarm()
  }

  #remember(session: string): void {
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
