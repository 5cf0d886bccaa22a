/** The operations on tunnels. */
import type { SandboxHandlers } from "../../wire/operations/index.ts"
import { ApiError } from "../gateway/api-error.ts"
import { pathOf, type Tunnels } from "./tunnels.ts"

export const tunnelOperations = (
  tunnels: Tunnels,
  isListening: (port: number) => Promise<boolean>,
) =>
  ({
    "list-tunnels": async () => ({
      tunnels: await Promise.all(
        tunnels.list().map(async (tunnel) => ({
          ...tunnel,
          path: pathOf(tunnel.name),
          listening: await isListening(tunnel.port),
        })),
      ),
    }),
    "register-tunnel": async ({ name, port, protocol = "auto" }) => {
      const refused = tunnels.register({ name, port, protocol })
      if (refused) throw new ApiError(409, "port-taken", refused.reason)
      const listening = await isListening(port)
      return { ok: true, tunnel: { name, port, protocol, path: pathOf(name), listening } }
    },
    "unregister-tunnel": async ({ name }) => {
      if (!tunnels.remove(name)) throw new ApiError(404, "not-found", `there is no tunnel ${name}`)
      return { ok: true }
    },
  }) satisfies Partial<SandboxHandlers>
