/** Budgets: states, what is announced, and the rules that hold for every sum. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  type Account,
  type BudgetState,
  budgetChange,
  budgetSchema,
  checkBudgets,
  spentOf,
} from "../../../src/hub/access/budgets.ts"

const seed = Date.now() % 2 ** 31
const session = (
  budget: Account["budget"],
  dollars: number,
  tokens = 0,
  of: Account["of"] = "session",
): Account => ({ of, budget, spent: { dollars, tokens } })
const rank = ({ state }: BudgetState) => ["ok", "warn", "stop"].indexOf(state)

describe("a budget", () => {
  test("a budget warns at 80 % and stops at 100 %", () => {
    const state = (dollars: number) => checkBudgets([session({ dollars: 10 }, dollars)]).state
    expect([0, 7.99, 8, 9.99, 10, 11].map(state)).toEqual([
      "ok",
      "ok",
      "warn",
      "warn",
      "stop",
      "stop",
    ])
  })
  test("without a limit nothing is stopped", () => {
    expect(checkBudgets([session({}, 1e9, 1e12)])).toEqual({ state: "ok" })
    expect(checkBudgets([])).toEqual({ state: "ok" })
  })
  test("a limit of 0 stops from the start", () => {
    expect(checkBudgets([session({ tokens: 0 }, 0, 0)]).state).toBe("stop")
  })
  test("a sum that is not a number stops", () => {
    expect(checkBudgets([session({ dollars: 5 }, Number.NaN)]).state).toBe("stop")
  })
  test("the worst of session and owner, dollars and tokens, decides", () => {
    const accounts = [
      session({ dollars: 10, tokens: 100 }, 8.5, 10),
      session({ tokens: 1000 }, 0, 1000, "owner"),
    ]
    expect(checkBudgets(accounts)).toEqual({
      state: "stop",
      of: "owner",
      unit: "tokens",
      spent: 1000,
      limit: 1000,
      sentence: "The owner's budget is used up: 1000 of 1000 tokens. Raise the budget to continue.",
    })
    expect(checkBudgets(accounts.slice(0, 1))).toMatchObject({
      state: "warn",
      sentence: "The session has used $8.50 of $10.00.",
    })
  })
  test("tokens of every kind count", () => {
    const usage = { input: 1, output: 2, reasoning: 4, cacheRead: 8, cacheWrite: 16, cost: 0.5 }
    expect(spentOf(usage)).toEqual({ dollars: 0.5, tokens: 31 })
  })
  test("a negative or infinite limit is not a budget", () => {
    for (const dollars of [-1, Number.POSITIVE_INFINITY, Number.NaN, "5"]) {
      expect(budgetSchema.safeParse({ dollars }).success).toBeFalse()
    }
    expect(budgetSchema.safeParse({ tokens: 1.5 }).success).toBeFalse()
    expect(budgetSchema.safeParse({ dollars: 0.5, tokens: 7 }).success).toBeTrue()
  })
})

describe("announcements of a budget", () => {
  const at = (dollars: number, limit = 10) => checkBudgets([session({ dollars: limit }, dollars)])

  test("each change is announced once", () => {
    expect(budgetChange(at(1), at(8))).toBe("warned")
    expect(budgetChange(at(8), at(9))).toBeUndefined()
    expect(budgetChange(at(9), at(10))).toBe("stopped")
    expect(budgetChange(at(1), at(20))).toBe("stopped")
    expect(budgetChange(at(10), at(12))).toBeUndefined()
    expect(budgetChange(at(10), at(10, 20))).toBe("resumed")
    expect(budgetChange(at(10), at(10, 11))).toBe("resumed")
    expect(budgetChange(at(9), at(9, 100))).toBeUndefined()
  })
})

describe("the rules of budgets", () => {
  const amount = fc.double({ min: 0, max: 1e6, noNaN: true })
  const budget = fc.record({
    dollars: fc.option(amount, { nil: undefined }),
    tokens: fc.option(fc.nat(), { nil: undefined }),
  })
  const account = fc.record({
    of: fc.constantFrom("session" as const, "owner" as const),
    budget,
    spent: fc.record({ dollars: amount, tokens: fc.nat() }),
  })
  const accounts = fc.array(account, { maxLength: 3 })

  test(`spending more never makes the state better (seed ${seed})`, () => {
    fc.assert(
      fc.property(accounts, amount, fc.nat(), (before, dollars, tokens) => {
        const after = before.map((one) => ({
          ...one,
          spent: { dollars: one.spent.dollars + dollars, tokens: one.spent.tokens + tokens },
        }))
        return rank(checkBudgets(after)) >= rank(checkBudgets(before))
      }),
      { seed },
    )
  })
  test(`raising a limit never makes the state worse (seed ${seed})`, () => {
    fc.assert(
      fc.property(accounts, amount, fc.nat(), (before, dollars, tokens) => {
        const after = before.map((one) => ({
          ...one,
          budget: {
            dollars: one.budget.dollars === undefined ? undefined : one.budget.dollars + dollars,
            tokens: one.budget.tokens === undefined ? undefined : one.budget.tokens + tokens,
          },
        }))
        return rank(checkBudgets(after)) <= rank(checkBudgets(before))
      }),
      { seed },
    )
  })
  test(`one more account never makes the state better (seed ${seed})`, () => {
    fc.assert(
      fc.property(
        accounts,
        account,
        (some, more) => rank(checkBudgets([...some, more])) >= rank(checkBudgets(some)),
      ),
      { seed },
    )
  })
})
