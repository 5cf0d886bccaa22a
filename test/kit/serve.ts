/** `serve` in this process with the scripted model: hub and fleet on one machine, in the directories of one test. */
import { join } from "node:path"
import {
  type ServeStack,
  type ServeStackOptions,
  startServeStack,
} from "../../src/cli/serve-stack.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { systemClock } from "../../src/lib/clock.ts"
import type { Log } from "../../src/lib/log.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { silentLog } from "./log.ts"
import type { ScriptedModel } from "./model.ts"
import { type Sandbox, scriptedConfig } from "./runner.ts"

export const startServe = (
  place: Sandbox,
  model: ScriptedModel,
  {
    environment,
    port = 0,
    log = silentLog,
    ...options
  }: Pick<ServeStackOptions, "provider" | "store"> &
    Partial<ServeStackOptions> & {
      readonly environment?: Readonly<Record<string, string>>
      /** Of the hub: the runners of before a restart connect to the same one. */
      readonly port?: number
      readonly log?: Log
    },
): Promise<ServeStack> =>
  startServeStack({
    version: "0.2.0",
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    configure: async (id, hub) => {
      hub.find(id)?.configure(scriptedConfig(model))
    },
    hub: {
      stateDir: join(place.root, "hub"),
      workDir: place.workDir,
      port,
      environment: { ...place.environment, ...environment },
      clock: systemClock,
      log,
      clientToken: CLIENT_TOKEN,
    },
    ...options,
  })

/** Ends every sandbox that the store knows. */
export const endSandboxes = async (
  { keeper }: Pick<ServeStack, "keeper">,
  store: FleetStore,
): Promise<void> => {
  for (const { id } of await store.present()) {
    await keeper.want(id, "ended")
    await keeper.waitFor(id, ({ life }) => life.phase === "ended", AbortSignal.timeout(60_000))
  }
}

/** A POST of the operator, for a person if one is named; the parsed response. */
export const postToServe = async (
  { hub }: Pick<ServeStack, "hub">,
  path: string,
  body: object = {},
  person?: string,
): Promise<Record<string, unknown>> => {
  const response = await fetch(`${hub.url}${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${CLIENT_TOKEN}`,
      ...(person !== undefined && { "x-user-id": person }),
    },
    body: JSON.stringify(body),
  })
  return (await response.json()) as Record<string, unknown>
}
