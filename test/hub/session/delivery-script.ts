/**
 * Plays deliveries on a database: receivers that fail, answers that are lost, a host that is killed before, during and after a call.
 * Runs on bun:sqlite and in a Durable Object.
 */
import { z } from "zod"
import { createDeliveries } from "../../../src/hub/session/deliveries.ts"
import { createDeliveryRows, createDeliveryTable } from "../../../src/hub/session/delivery-rows.ts"
import type { Sql } from "../../../src/hub/session/ports.ts"

/** What happens to the next call of a receiver. `lost`: it has the delivery, and its answer does not arrive. */
export type CallEnd = "taken" | "failed" | "final" | "lost" | "killed before" | "killed after"

export type DeliveryStep =
  | { readonly do: "add"; readonly kind: "known" | "blind"; readonly lane: string }
  | { readonly do: "calls"; readonly ends: readonly CallEnd[] }
  | { readonly do: "alarm" }
  | { readonly do: "restart" }
  /** The host dies in the transaction that records the outcome of the next call. */
  | { readonly do: "kill in transaction" }

export interface PlayedDeliveries {
  /** Ids that were added, by lane, in their order. */
  readonly added: Readonly<Record<string, readonly string[]>>
  /** What receivers with idempotency keys have, and every call to the others, in the order of the calls. */
  readonly known: readonly string[]
  readonly blind: readonly string[]
  /** Ids that were given up, with how often that was said. */
  readonly ended: readonly string[]
  readonly left: number
}

interface Payloads {
  readonly known: { readonly lane: string }
  readonly blind: { readonly lane: string }
}

const payload = z.object({ lane: z.string() })
const limits = { backoff: { min: 100, max: 1000 }, maxAttempts: 4, payload }

class CallError extends Error {
  readonly retryable: boolean
  readonly mayHaveArrived: boolean
  constructor(retryable: boolean, mayHaveArrived: boolean) {
    super("the call failed")
    this.retryable = retryable
    this.mayHaveArrived = mayHaveArrived
  }
}

export const playDeliveries = async (
  sql: Sql,
  steps: readonly DeliveryStep[],
): Promise<PlayedDeliveries> => {
  createDeliveryTable(sql)
  sql.run("CREATE TABLE ended (id TEXT)")
  const added: Record<string, string[]> = {}
  const known = new Set<string>()
  const blind: string[] = []
  let ends: CallEnd[] = []
  let killsInTransaction = false
  let time = 1_000_000
  let ids = 0

  const startHost = () => {
    let isDead = false
    const die = (): Promise<never> => {
      isDead = true
      return new Promise(() => {})
    }
    const rows = createDeliveryRows<Payloads>({ sql, now: () => time })
    const commit = (work: () => void) => {
      if (isDead) throw new Error("the host is dead")
      sql.transaction(() => {
        work()
        if (!killsInTransaction) return
        killsInTransaction = false
        isDead = true
        throw new Error("killed")
      })
    }
    const call = async (take: () => void): Promise<void> => {
      const end = ends.shift() ?? "taken"
      if (end === "failed") throw new CallError(true, false)
      if (end === "final") throw new CallError(false, false)
      if (end === "killed before") return die()
      take()
      if (end === "killed after") return die()
      if (end === "lost") throw new CallError(true, true)
    }
    const givenUp = ({ id }: { readonly id: string }) =>
      sql.run("INSERT INTO ended (id) VALUES (?)", id)
    const deliveries = createDeliveries<Payloads>({
      rows,
      kinds: {
        known: { ...limits, givenUp, send: ({ id }) => call(() => void known.add(id)) },
        blind: {
          ...limits,
          givenUp,
          send: async ({ id, mayHaveArrived }, begin) => {
            if (mayHaveArrived) throw new CallError(false, true)
            begin()
            await call(() => void blind.push(id))
          },
        },
      },
      now: () => time,
      random: () => 0.5,
      commit,
      unreadable: (_lane, id) => givenUp({ id }),
      report: () => {},
    })
    deliveries.start()
    return {
      isDead: () => isDead,
      kill: () => {
        isDead = true
      },
      add: (kind: "known" | "blind", lane: string) => {
        ids += 1
        const id = `${lane}-${ids}`
        sql.transaction(() => rows.add(kind, { id, lane, payload: { lane } }))
        ;(added[lane] ??= []).push(id)
      },
      deliveries,
    }
  }

  let host = startHost()
  const settle = async () => {
    void host.deliveries.send()
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve()
    if (host.isDead()) host = startHost()
  }
  const alarm = async () => {
    time = host.deliveries.nextAlarm() ?? time
    host.deliveries.wake()
    await settle()
  }
  for (const step of steps) {
    switch (step.do) {
      case "add":
        host.add(step.kind, step.lane)
        break
      case "calls":
        ends = [...step.ends]
        break
      case "alarm":
        await alarm()
        continue
      case "restart":
        host.kill()
        host = startHost()
        break
      case "kill in transaction":
        killsInTransaction = true
        break
    }
    await settle()
  }
  ends = []
  killsInTransaction = false
  for (let turn = 0; turn < 100 && host.deliveries.nextAlarm() !== undefined; turn += 1)
    await alarm()
  return {
    added,
    known: [...known],
    blind,
    ended: sql.all<{ id: string }>("SELECT id FROM ended").map(({ id }) => id),
    left: sql.all("SELECT 1 FROM deliveries").length,
  }
}
