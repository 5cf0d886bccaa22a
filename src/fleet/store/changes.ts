/** Tells watchers in this process that a session was changed. */
import type { FleetStore } from "./ports.ts"

/** The id of the changed session; undefined: any session may have changed. */
type Changed = (session: string | undefined) => void

export interface Changes {
  readonly emit: Changed
  /** The returned function ends the watch. */
  readonly watch: (changed: Changed) => () => void
}

export const createChanges = (): Changes => {
  const watchers = new Set<Changed>()
  return {
    emit: (session) => {
      for (const changed of watchers) changed(session)
    },
    watch: (changed) => {
      watchers.add(changed)
      return () => void watchers.delete(changed)
    },
  }
}

/** A store that tells of its own changes after they are stored. */
export const announced = (
  store: Omit<FleetStore, "watch">,
  { emit, watch }: Changes,
): FleetStore => ({
  ...store,
  watch,
  change: async (id, at, decide) => {
    let isWritten = false
    const session = await store.change(id, at, (stored) => {
      const change = decide(stored)
      isWritten = change !== undefined
      return change
    })
    if (isWritten) emit(id)
    return session
  },
  replace: async (session, life, at) => {
    const stored = await store.replace(session, life, at)
    emit(stored.id)
    return stored
  },
  claim: async (poolKey, to, at) => {
    const claimed = await store.claim(poolKey, to, at)
    if (claimed) emit(claimed.id)
    return claimed
  },
  unclaim: async (id, poolTenant, at) => {
    await store.unclaim(id, poolTenant, at)
    emit(id)
  },
  bind: async (id) => {
    await store.bind(id)
    emit(id)
  },
  forget: async (id, leftAt) => {
    await store.forget(id, leftAt)
    emit(id)
  },
})
