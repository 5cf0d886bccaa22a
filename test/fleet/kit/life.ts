/** Lives by the flags with which they are stored, for tests about single facts. */
import { type Life, MAX_FAILURES, newLife } from "../../../src/fleet/core/life.ts"
import { lifeSchema, rowOf } from "../../../src/fleet/store/life-row.ts"

export type Flags = Partial<ReturnType<typeof rowOf>>

/** This life with other flags, read as a store reads it. `failed`: as often as it takes to be given up. */
export const changedLife = (life: Life, { failed, ...flags }: Flags): Life =>
  lifeSchema.parse({ ...rowOf(life), ...(failed && { failures: MAX_FAILURES }), ...flags })

/** A new life with these flags. */
export const lifeWith = (flags: Flags): Life => changedLife(newLife, flags)
