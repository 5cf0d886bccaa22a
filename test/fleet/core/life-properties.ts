/** The twelve properties of a sandbox's life: six kinds of providers, each with and without ghosts and a sweep. */
import * as fc from "fast-check"
import { actions, capabilitySets, live, type Machine } from "./life-world.ts"

export interface LifeProperty {
  readonly name: string
  readonly check: (machine: Machine, runs: number) => void
}

/** A ghost is a create that finishes after every look for it. Only the sweep can find it, so both come together. */
export const lifeProperties: readonly LifeProperty[] = Object.entries(capabilitySets).flatMap(
  ([kind, can]) =>
    [false, true].map((reaper) => ({
      name: `${kind}, ${reaper ? "with ghosts and a sweep" : "without a sweep"}`,
      check: (machine: Machine, runs: number) =>
        fc.assert(
          fc.property(
            actions(reaper),
            fc.constantFrom("running" as const, "asleep" as const, "ended" as const),
            (schedule, final) => live(machine, can, schedule, final, { reaper }),
          ),
          { numRuns: runs },
        ),
    })),
)
