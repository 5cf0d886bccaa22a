/** `serve` in this process without an agent: hub and fleet in one folder, for tests of what callers see. */
import {
  type ServeStack,
  type ServeStackOptions,
  startServeStack,
} from "../../../src/cli/serve-stack.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { CLIENT_TOKEN } from "../../hub/kit/hub.ts"
import { silentLog } from "../../kit/log.ts"

export const startStack = (
  folder: string,
  {
    hub,
    ...options
  }: Pick<ServeStackOptions, "provider" | "store"> &
    Partial<Omit<ServeStackOptions, "hub">> & { readonly hub?: Partial<ServeStackOptions["hub"]> },
): Promise<ServeStack> =>
  startServeStack({
    version: "0.2.0",
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    configure: async () => {},
    hub: {
      stateDir: folder,
      workDir: folder,
      port: 0,
      environment: {},
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
      ...hub,
    },
    ...options,
  })
