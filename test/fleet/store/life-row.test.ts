/** The stored form of a life: read and written also by replicas of a version without phases. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { type Life, newLife } from "../../../src/fleet/core/life.ts"
import { lifeSchema, rowOf } from "../../../src/fleet/store/life-row.ts"
import { dueAt, step } from "../../../src/fleet/core/life-state.ts"
import { formerLives, formerSchema } from "../kit/former-lives.ts"
import { lifeWith } from "../kit/life.ts"
import { actions, capabilitySets, live, type Machine } from "../core/life-world.ts"

const stored = (life: Life): unknown => JSON.parse(JSON.stringify(rowOf(life)))

describe("a row of a version without phases", () => {
  test.each(formerLives)("is read in its phase and written as it was: $name", ({ life, row }) => {
    const read = lifeSchema.parse(row)
    expect(read as unknown).toEqual(life)
    expect(stored(read)).toEqual(row)
  })

  test("is read without what was left from another phase", () => {
    const refused = { linked: true, touched: true, wanted: "running", failures: 1 } as const
    expect(lifeWith(refused)).toEqual(lifeWith({ wanted: "running", failures: 1 }))
    const paused = { phase: "paused", ref: "a", pausedAt: 5 } as const
    expect(lifeWith({ ...paused, bootBy: 3, unlinkedAt: 2 })).toEqual(lifeWith(paused))
    const running = { phase: "running", ref: "a", linked: true } as const
    expect(lifeWith({ ...running, bootBy: 3, unlinkedAt: 2 })).toEqual(lifeWith(running))
  })
})

/** Every step is made from what was read, and a version without phases can read it too. */
const throughRows: Machine = {
  newLife,
  dueAt,
  step: (life, event, policy) => {
    const [next, effects] = step(life, event, policy)
    const row = stored(next)
    const byFormer: unknown = formerSchema.parse(row)
    expect(byFormer).toEqual(row)
    const read = lifeSchema.parse(row)
    expect(read).toEqual(next)
    return [read, effects]
  },
}

test.each(Object.entries(capabilitySets))(
  "every life is read as it was stored, after each of its steps: %s",
  (_, can) => {
    fc.assert(
      fc.property(
        actions(true),
        fc.constantFrom("running" as const, "asleep" as const, "ended" as const),
        (schedule, final) => live(throughRows, can, schedule, final, { reaper: true }),
      ),
      { numRuns: 50 },
    )
  },
)
