/** The machine of a sandbox's life: 480,000 simulated lives, and faults in the machine that the properties must notice. */
import { describe, expect, test } from "bun:test"
import { newLife } from "../../src/fleet/core/life.ts"
import { dueAt, step } from "../../src/fleet/core/life-state.ts"
import { caughtBy, mutants } from "../fleet/core/life-mutants.ts"
import { lifeProperties } from "../fleet/core/life-properties.ts"

describe("40,000 lives with each kind of provider keep every promise", () => {
  for (const { name, check } of lifeProperties)
    test(
      `40,000 lives with a provider with ${name} keep every promise`,
      () => check({ newLife, step, dueAt }, 40_000),
      300_000,
    )
})

describe("each known fault of the machine is noticed by at least one property", () => {
  for (const mutant of mutants)
    test(mutant.name, async () => expect(await caughtBy(mutant, 4000, 1)).toHaveLength(1), 300_000)
})
