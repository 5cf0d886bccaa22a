/** `serve` in this process without an agent: hub and fleet in one folder, for tests of what callers see. */
import {
  type ServeStack,
  type ServeStackOptions,
  startServeStack,
} from "../../../src/cli/serve-stack.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { CLIENT_TOKEN } from "../../hub/kit/hub.ts"
import { silentLog } from "../../kit/log.ts"

/** The body of `/create-session`: a session of another session agent. */
export const externalSession = {
  sessionId: "external-1",
  userId: "carol",
  workspace: "w",
  imageType: "base",
  doWsUrl: "ws://127.0.0.1:1/sessions/external-1/ws",
  runnerToken: "a runner token of the caller",
  jwtSecret: "a gateway key of the caller",
  envVars: {},
}

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
      // All callers of these tests have one address.
      wrongSecrets: () => false,
      ...hub,
    },
    ...options,
  })
