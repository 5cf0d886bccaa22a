/** The agent's config as the hub shows it, without secrets, and the change of it. */
import { computed } from "@preact/signals"
import type { Client } from "../../../wire/clients/verbs.ts"
import { request, view } from "../client/store.ts"

interface ShownConfig {
  readonly keys?: Readonly<Record<string, boolean>>
  readonly instructions?: readonly string[]
  readonly tools?: Readonly<Record<string, boolean>>
  readonly endpoints?: readonly { readonly providerId: string; readonly displayName?: string }[]
}

export const config = computed(
  (): ShownConfig => (view.value.state["config"] as ShownConfig | undefined) ?? {},
)

/** `undefined` when it was saved, else the reason. */
export const changeConfig = async (
  change: Client<"config">["config"],
): Promise<string | undefined> => {
  const reply = await request("config", { config: change })
  return reply.ok ? undefined : reply.error.message
}
