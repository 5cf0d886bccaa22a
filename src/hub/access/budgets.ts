/** Budgets in dollars and tokens, per session and per owner: warn at 80 %, stop at 100 %. Pure. */
import type { Usage } from "../../wire/clients/conversation.ts"
import { z } from "zod"

/** A missing limit means no limit. */
export const budgetSchema = z.object({
  dollars: z.number().nonnegative().optional(),
  tokens: z.int().nonnegative().optional(),
})

export interface Budget {
  readonly dollars?: number | undefined
  readonly tokens?: number | undefined
}

export interface Spent {
  readonly dollars: number
  readonly tokens: number
}

export interface Account {
  readonly of: "session" | "owner"
  readonly budget: Budget
  readonly spent: Spent
}

export type BudgetState =
  | { readonly state: "ok" }
  | {
      readonly state: "warn" | "stop"
      readonly of: Account["of"]
      readonly unit: keyof Spent
      readonly spent: number
      readonly limit: number
      readonly sentence: string
    }

const WARN_AT = 0.8

/** Every kind of token counts as one: cached tokens are cheaper, which the limit in dollars covers. */
export const spentOf = (usage: Usage): Spent => ({
  dollars: usage.cost,
  tokens: usage.input + usage.output + usage.reasoning + usage.cacheRead + usage.cacheWrite,
})

/** The worst state of all accounts; of two equally bad ones, the one closer to its limit. */
export const checkBudgets = (accounts: readonly Account[]): BudgetState => {
  const found = accounts.flatMap((account) =>
    (["dollars", "tokens"] as const).flatMap((unit) => {
      const limit = account.budget[unit]
      return limit === undefined ? [] : [{ account, unit, limit, spent: account.spent[unit] }]
    }),
  )
  const [worst] = found
    .map((one) => ({ ...one, share: shareOf(one.spent, one.limit) }))
    .toSorted((a, b) => b.share - a.share)
  if (worst === undefined || worst.share < WARN_AT) return { state: "ok" }
  const { account, unit, limit, spent } = worst
  const state = worst.share >= 1 ? "stop" : "warn"
  const { of } = account
  return { state, of, unit, spent, limit, sentence: sentenceOf(state, of, unit, spent, limit) }
}

/** A limit of 0 is used up from the start. A sum that is not a number counts as used up, so an error cannot cost money. */
const shareOf = (spent: number, limit: number): number => {
  if (Number.isNaN(spent) || Number.isNaN(limit)) return Number.POSITIVE_INFINITY
  return limit <= 0 ? Number.POSITIVE_INFINITY : spent / limit
}

export type BudgetChange = "warned" | "stopped" | "resumed"

/** What to announce when the state changes; a warning is announced once, not with every message. */
export const budgetChange = (before: BudgetState, after: BudgetState): BudgetChange | undefined => {
  if (before.state === after.state) return undefined
  if (after.state === "stop") return "stopped"
  if (before.state === "stop") return "resumed"
  return after.state === "warn" ? "warned" : undefined
}

const sentenceOf = (
  state: "warn" | "stop",
  of: Account["of"],
  unit: keyof Spent,
  spent: number,
  limit: number,
): string => {
  const amounts =
    unit === "dollars"
      ? `$${spent.toFixed(2)} of $${limit.toFixed(2)}`
      : `${spent} of ${limit} tokens`
  return state === "stop"
    ? `The ${of}'s budget is used up: ${amounts}. Raise the budget to continue.`
    : `The ${of} has used ${amounts}.`
}
