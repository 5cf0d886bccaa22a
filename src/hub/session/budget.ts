/**
 * The budget of a session: what it and its owner have used. At 100 % running prompts are stopped with that reason and the
 * queue waits; a raised budget lets it go on.
 */
import { z } from "zod"
import {
  type Account,
  type Budget,
  type BudgetState,
  budgetChange,
  budgetSchema,
  checkBudgets,
  spentOf,
} from "../access/budgets.ts"
import { readJson } from "../../lib/json.ts"
import { readUsage } from "./client-views.ts"
import type { NamedValues } from "./named-values.ts"
import type { Sql } from "./ports.ts"
import { dispatch, stopPrompts } from "./prompt-lifecycle.ts"
import type { SessionContext } from "./session-context.ts"

export interface SessionBudget {
  readonly limits: () => Budget
  readonly setLimits: (limits: Budget) => void
  /** What the owner may spend and has spent, over all its sessions. */
  readonly setOwner: (account: OwnerAccount) => void
  /** False when neither this account nor the stored one has a limit. */
  readonly concerns: (account: OwnerAccount) => boolean
  readonly state: () => BudgetState
  /** True while no prompt may start. */
  readonly blocks: () => boolean
}

const ownerAccount = z.object({
  budget: budgetSchema,
  spent: z.object({ dollars: z.number(), tokens: z.number() }),
})
export type OwnerAccount = Pick<Account, "budget" | "spent"> & {
  /** The model of prompts that name none. */
  readonly model?: string | undefined
}

const shownState = z.object({ state: z.enum(["ok", "warn", "stop"]) })

export const createBudget = (sql: Sql, values: NamedValues): SessionBudget => {
  const limits = (): Budget => readJson(budgetSchema, values.getPrivate("budget") ?? "{}")
  const ownerRow = () => values.getPrivate("owner-account")
  return {
    limits,
    setLimits: (budget) => values.setPrivate("budget", JSON.stringify(budget)),
    setOwner: (account) => values.setPrivate("owner-account", JSON.stringify(account)),
    concerns: ({ budget: { dollars, tokens } }) =>
      (dollars ?? tokens) !== undefined || ownerRow() !== undefined,
    state: () => {
      const owner = ownerRow()
      return checkBudgets([
        { of: "session", budget: limits(), spent: spentOf(readUsage(sql)) },
        ...(owner === undefined
          ? []
          : [{ of: "owner" as const, ...readJson(ownerAccount, owner) }]),
      ])
    },
    blocks: () => shownState.safeParse(values.getPublic("budget")).data?.state === "stop",
  }
}

/** Compares the use with the budgets and acts on a change. Inside a transaction. */
export const checkBudget = (context: SessionContext): void => {
  const { budget, values, queue } = context
  const before = shownState.safeParse(values.getPublic("budget")).data ?? { state: "ok" as const }
  const after = budget.state()
  const change = budgetChange(before as BudgetState, after)
  if (change === undefined && before.state === after.state) return
  values.setPublic("budget", after)
  if (change === "stopped" && after.state === "stop") {
    for (const { id } of queue.processing()) queue.setError(id, after.sentence)
    stopPrompts(context, undefined)
  }
  if (change === "resumed") dispatch(context)
}
