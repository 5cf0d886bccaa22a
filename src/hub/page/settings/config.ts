/** The agent's config as the hub shows it, without secrets, and the change of it. */
import { computed } from "@preact/signals"
import type { Client } from "../../../wire/clients/verbs.ts"
import { dock, request, view } from "../client/store.ts"
import type { ShownEndpoint } from "./endpoint-fields.ts"

interface ShownConfig {
  readonly keys?: Readonly<Record<string, boolean>>
  readonly instructions?: readonly string[]
  readonly tools?: Readonly<Record<string, boolean>>
  readonly providers?: readonly ShownEndpoint[]
}

export const config = computed(
  (): ShownConfig => (view.value.state["config"] as ShownConfig | undefined) ?? {},
)

/** The demo model of `up`. It goes when the person adds an endpoint; the next `up` adds it if no endpoint is left. */
const DEMO = "demo"

/** Endpoints of the person's own. */
export const endpoints = computed(() =>
  (config.value.providers ?? []).filter(({ id }) => id !== DEMO),
)

export const withoutDemo = () =>
  config.value.providers?.some(({ id }) => id === DEMO) === true ? { [DEMO]: null } : {}

interface Applied {
  readonly requestId?: string
  readonly error?: string
}

const APPLY_LIMIT_MS = 30_000

/** The problem that the runner reports for the change; `undefined` when there is none, or no runner to apply it now. */
const problemOf = (requestId: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => settle(undefined), APPLY_LIMIT_MS)
    const applied = computed(() => view.value.state["config-applied"] as Applied | undefined)
    const stop = applied.subscribe((value) => {
      if (value?.requestId === requestId) settle(value.error)
    })
    const settle = (problem: string | undefined) => {
      clearTimeout(timer)
      // The first value arrives before `stop` exists.
      queueMicrotask(() => stop())
      resolve(problem)
    }
  })

/** `undefined` when it was saved and applied, else the reason. */
export const changeConfig = async (
  change: Pick<Client<"config">, "config" | "patch">,
): Promise<string | undefined> => {
  const reply = await request({ type: "config", ...change })
  if (!reply.ok) return reply.error.message
  const requestId = reply["requestId"]
  const isAway = dock.value.isAway
  return typeof requestId === "string" && !isAway ? problemOf(requestId) : undefined
}
