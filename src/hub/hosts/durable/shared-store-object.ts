/** The shared store of one owner as a Durable Object: tables and triggers. */
import type { RequestFrame } from "../../../wire/frames/index.ts"
import type { ExecutionDecision } from "../../session/ports.ts"
import { routeOf } from "../../session/routes.ts"
import { digestOf } from "../../../lib/digest.ts"
import type { MailReader } from "../../access/mail-reader.ts"
import type { PersonaText } from "../../shared-store/personas.ts"
import { LOCAL_OWNER, type Owner, parseOwner } from "../../access/ownership.ts"
import { consoleReport } from "./console-report.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import { one, type Sql } from "../../session/ports.ts"
import { addressOf, countedInDirectory } from "./environment.ts"
import { HOOK_REFUSALS, limitResponse } from "../../access/wrong-secrets.ts"
import { durableGit } from "./git.ts"
import { durableSql, hasTable } from "./sql.ts"
import type { DurableEnvironment, DurableState } from "./runtime-types.ts"
import { type SharedStore as Store, createSharedStore } from "../../shared-store/shared-store.ts"
import { type EffectReceiver, sessionDeliveries } from "../../shared-store/session-deliveries.ts"
import { takeHook } from "../../shared-store/webhook.ts"

/** `user:local` has the store of before there were owners. A name is short, because it is part of a hook's URL. */
export const storeNameOf = (owner: Owner): string =>
  owner === LOCAL_OWNER ? "" : digestOf(owner).replace("sha256:", "").slice(0, 32)

/** The store that has this trigger. */
export const storeOfTrigger = (trigger: string): string =>
  trigger.includes(".") ? trigger.slice(0, trigger.indexOf(".")) : ""

export class SharedStore {
  readonly #state: DurableState
  readonly #sql: Sql
  readonly #environment: DurableEnvironment
  #opened: Store | undefined

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#state = state
    this.#environment = environment
    this.#sql = durableSql(state)
    // An object exists as soon as its name is used, and anybody can use one in the URL of a hook: only a call of another object
    // makes the tables.
    if (hasTable(state, "triggers")) this.#store().start()
  }

  #store(): Store {
    return (this.#opened ??= this.#open())
  }

  #open(): Store {
    const [state, environment] = [this.#state, this.#environment]
    this.#sql.run("CREATE TABLE IF NOT EXISTS store_name (name TEXT PRIMARY KEY)")
    this.#sql.run("CREATE TABLE IF NOT EXISTS store_owner (owner TEXT PRIMARY KEY)")
    return createSharedStore({
      sql: this.#sql,
      tools: {
        now: () => Date.now(),
        newId: () => crypto.randomUUID(),
        // The ids begin with the store's name, so that the worker finds the store of a hook.
        newTriggerId: () => {
          const name = this.#name()
          return `${name === "" ? "" : `${name}.`}${crypto.randomUUID()}`
        },
        digest: digestOf,
      },
      alarm: {
        set: (at) =>
          state.waitUntil(
            at === undefined ? state.storage.deleteAlarm() : state.storage.setAlarm(at),
          ),
      },
      deliveries: sessionDeliveries(
        (session) => effectReceiver(environment, this.#name(), session),
        () =>
          durableGit(environment, this.#owner(), (session, pull) =>
            effectReceiver(environment, this.#name(), session).showPull(pull),
          ),
      ),
      report: consoleReport(() => undefined),
    })
  }

  async fetch(request: Request): Promise<Response> {
    const route = routeOf(request.method, new URL(request.url).pathname, null)
    if (route?.to === "hook")
      return limitResponse(
        countedInDirectory(this.#environment),
        addressOf(request),
        await takeHook(this.#opened, route.trigger, request),
        HOOK_REFUSALS,
      )
    const response = await handleCall(request, {
      // `null`: the request needs more than the tables, the caller handles it.
      answer: (store: string, session: string, frame: RequestFrame, reader: MailReader) => {
        this.#setName(store)
        return this.#store().answer(session, frame, reader) ?? null
      },
      listPersonas: () => this.#store().personas.list(),
      putPersona: (persona: PersonaText) => this.#store().personas.put(persona),
      removePersona: (slug: string) => this.#store().personas.remove(slug),
      retryGit: (owner: Owner, ...change: Parameters<Store["retryGit"]>) => {
        this.#setName(storeNameOf(owner))
        this.#sql.run("INSERT OR IGNORE INTO store_owner (owner) VALUES (?)", owner)
        this.#store().retryGit(...change)
      },
      setHandle: (store: string, handle: string, session: string) => {
        this.#setName(store)
        this.#store().setHandle(handle, session)
      },
      executed: (...report: Parameters<Store["executed"]>) => this.#store().executed(...report),
      decide: (session: string, decision: ExecutionDecision) =>
        this.#store().decide(session, decision),
    })
    return response ?? new Response("no such route", { status: 404 })
  }

  alarm(): void {
    this.#store().alarm()
  }

  /** Stored by the first change of a pull request that has to be tried again: its token is the owner's. */
  #owner(): Owner {
    const row = one(this.#sql.all<{ owner: string }>("SELECT owner FROM store_owner"))
    return parseOwner(row?.owner ?? "") ?? LOCAL_OWNER
  }

  /** Also makes the tables. */
  #setName(store: string): void {
    this.#store()
    this.#sql.run("INSERT OR IGNORE INTO store_name (name) VALUES (?)", store)
  }

  /** The runtime does not tell an object its name: the first request stored it. */
  #name(): string {
    return one(this.#sql.all<{ name: string }>("SELECT name FROM store_name"))?.name ?? ""
  }
}

/** The session's object. A session that does not exist or has another owner refuses every call. */
const effectReceiver = (
  environment: DurableEnvironment,
  store: string,
  session: string,
): EffectReceiver => {
  const call =
    (name: string) =>
    (...args: readonly unknown[]): Promise<void> =>
      callObject(environment.SESSIONS, session, nothing, "effect", [store, name, ...args])
  return {
    orderWorkflow: call("orderWorkflow"),
    cancelWorkflow: call("cancelWorkflow"),
    prompt: call("prompt"),
    note: call("note"),
    notify: call("notify"),
    showPull: call("showPull"),
  }
}
