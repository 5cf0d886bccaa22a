/**
 * Parts of the view as signals of their own. What reads a part renders again when that part changes, and not with every
 * word that streams in.
 */
import { computed, type ReadonlySignal } from "@preact/signals"
import type { View } from "../../view/view.ts"
import { state, turns, view } from "./store.ts"

const slice = <Name extends keyof View>(name: Name): ReadonlySignal<View[Name]> =>
  computed(() => view.value[name])

export const artifacts = slice("artifacts")
export const channels = slice("channels")
export const interactions = slice("interactions")
export const link = slice("link")
export const usage = slice("usage")

/** One state of the session by its name, such as `git` or `models`. */
export const stateOf = (name: string): ReadonlySignal<unknown> => computed(() => state.value[name])

/** The branch of the workspace; `undefined` outside of a repository. */
export const git = stateOf("git") as ReadonlySignal<{ readonly branch?: string } | undefined>

/** The open conversation has no message yet. */
export const isUnspoken = computed(() => turns.value.length === 0)
