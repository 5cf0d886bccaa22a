/** The shared store of one owner as a Durable Object: tables and triggers. */
import type { Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import { channelAddress } from "../../../wire/channel.ts"
import { routeOf } from "../../session/routes.ts"
import { digestOf } from "../../../lib/digest.ts"
import type { Owner } from "../../access/ownership.ts"
import { LOCAL_OWNER } from "../../access/session-access.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import { durableSql } from "./sql.ts"
import type { DurableEnvironment, DurableState } from "./runtime-types.ts"
import { type SharedStore as Store, createSharedStore } from "../../shared-store/shared-store.ts"
import { takeHook } from "../../shared-store/webhook.ts"

/** `user:local` has the store of before there were owners. A name is short, because it is part of a hook's URL. */
export const storeNameOf = (owner: Owner): string =>
  owner === LOCAL_OWNER ? "" : digestOf(owner).replace("sha256:", "").slice(0, 32)

/** The store that has this trigger. */
export const storeOfTrigger = (trigger: string): string =>
  trigger.includes(".") ? trigger.slice(0, trigger.indexOf(".")) : ""

export class SharedStore {
  readonly #store: Store
  /** Ids of triggers begin with the store's name, so that the worker finds the store of a hook. */
  #hookPrefix = ""

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#store = createSharedStore({
      sql: durableSql(state),
      tools: {
        now: () => Date.now(),
        newId: () => crypto.randomUUID(),
        newTriggerId: () => `${this.#hookPrefix}${crypto.randomUUID()}`,
        digest: digestOf,
      },
      alarm: {
        set: (at) =>
          state.waitUntil(
            at === undefined ? state.storage.deleteAlarm() : state.storage.setAlarm(at),
          ),
      },
      deliver: (session, id, effect) => {
        const call = (name: string, ...args: readonly unknown[]) =>
          callObject(environment.SESSIONS, session, nothing, name, args)
        if (effect.do === "order") return call("orderWorkflow", id, effect.frame)
        if (effect.do === "cancel") return call("cancelWorkflow", effect.executionId)
        const prompt = { type: "prompt", messageId: id, content: effect.content }
        return call("prompt", { ...prompt, ...channelAddress("web:default") }, "web:default")
      },
      report: () => {},
    })
    this.#store.start()
  }

  async fetch(request: Request): Promise<Response> {
    const route = routeOf(request.method, new URL(request.url).pathname, null)
    if (route?.to === "hook") return takeHook(this.#store, route.trigger, request)
    const response = await handleCall(request, {
      // `null`: the request needs more than the tables, the caller handles it.
      answer: (store: string, session: string, frame: RequestFrame) => {
        this.#hookPrefix = store === "" ? "" : `${store}.`
        return this.#store.answer(session, frame) ?? null
      },
      executed: (id: string, envelope: Outbound<"workflow-execution-result">["envelope"]) =>
        this.#store.executed(id, envelope),
    })
    return response ?? new Response("no such route", { status: 404 })
  }

  alarm(): void {
    this.#store.alarm()
  }
}
