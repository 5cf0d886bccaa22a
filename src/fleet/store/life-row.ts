/**
 * The form in which a life is stored: that of versions without phases, with a flag for each fact. Replicas of such a version may
 * run beside this one, and they read and write the same rows.
 */
import { z } from "zod"
import { isGivenUp, isInDoubt, type Life, sessionSchema } from "../core/life.ts"
import { inPhase } from "../core/life-phases.ts"

const flag = z.boolean()
const number = z.number().optional()
const ofRunner = { linked: flag, busy: flag, restarted: flag, prepared: flag, preparedAt: number }
const ofWork = { touched: flag, saved: flag, rescued: flag, deep: flag, replace: flag }
const ofDoubt = { doubt: flag, unsure: flag, hookFailures: number }
const times = { bootBy: number, unlinkedAt: number, pausedAt: number }

const rowSchema = sessionSchema.extend({
  ...ofRunner,
  ...ofWork,
  ...ofDoubt,
  ...times,
  lookAt: number,
  expiresAt: number,
  ref: z.string().optional(),
  wanted: z.enum(["running", "asleep", "ended"]),
  phase: z.enum(["absent", "booting", "running", "paused", "ended"]),
})

type LifeRow = z.output<typeof rowSchema>

const phaseOf = ({ phase, ref, doubt, pending }: LifeRow): Life["phase"] => {
  if (phase === "ended" || (ref !== undefined && phase !== "absent")) return phase
  return doubt || pending?.call.do === "create" ? "creating" : "absent"
}

const lifeOf = (row: LifeRow): Life => {
  const { deep, linked, busy, touched, saved, rescued, doubt, prepared, preparedAt, ...rest } = row
  return inPhase(phaseOf(row), {
    ...rest,
    // Every version has stored these times in the phases that have them.
    bootBy: row.bootBy ?? 0,
    unlinkedAt: row.unlinkedAt ?? 0,
    pausedAt: row.pausedAt ?? 0,
    ...(row.wanted === "asleep" && { deep }),
    runner: busy ? "busy" : linked ? "idle" : "away",
    work: saved ? "saved" : rescued ? "rescued" : touched ? "unsaved" : "none",
    twin: doubt,
    ...(preparedAt !== undefined && { hook: { at: preparedAt, holds: prepared } }),
  })
}

export const lifeSchema = rowSchema.transform(lifeOf)

export const rowOf = (life: Life): LifeRow & { readonly failed: boolean } => {
  const { runner = "away", work = "none", hook, twin: _twin, ...rest } = life
  const { deep = false, unsure = false, replace = false, restarted = false } = life
  return {
    ...rest,
    deep,
    phase: life.phase === "creating" ? "absent" : life.phase,
    linked: runner !== "away",
    busy: runner === "busy",
    touched: work !== "none",
    saved: work === "saved",
    rescued: work === "rescued",
    doubt: isInDoubt(life),
    unsure,
    replace,
    restarted,
    prepared: hook?.holds === true,
    preparedAt: hook?.at,
    failed: isGivenUp(life),
  }
}
