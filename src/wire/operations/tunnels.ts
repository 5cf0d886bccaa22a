/** Tunnels: ports of the sandbox that the gateway serves under a name. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { nothing, ok, oneOf, text, wholeNumber } from "./fields.ts"
import { listed } from "./render.ts"

const nameRule = "must be 1 to 32 letters, digits, _ or -"

const protocols = ["http", "ws", "auto"] as const

export const tunnel = z.object({
  name: z.string(),
  port: z.int(),
  protocol: z.enum(protocols).optional(),
  path: z.string(),
  /** Something answers on the port, at the time of asking. */
  listening: z.boolean().optional(),
})

export const operations = [
  sandboxOperation({
    name: "list-tunnels",
    method: "GET",
    path: "/api/tunnels",
    doc: "List the tunnels.",
    tools: [
      {
        name: "list_tunnels",
        description: "List the ports of this sandbox that people can open, with their paths.",
        render: ({ tunnels }) => listed(tunnels, "tunnel", "tunnels"),
      },
    ],
    input: nothing,
    output: z.object({ tunnels: z.array(tunnel) }),
    part: "tunnels",
  }),
  sandboxOperation({
    name: "register-tunnel",
    method: "POST",
    path: "/api/tunnels",
    doc: "Serve a port of the sandbox under a name.",
    tools: [
      {
        name: "register_tunnel",
        description:
          "Let people open a port of this sandbox, for example a dev server. The server must listen already; the skill `sandbox-tunnels` tells of paths and hosts.",
        render: ({ tunnel: made }) =>
          `Port ${made.port} is open at ${made.path}/ of this sandbox's address.`,
      },
    ],
    input: z.object({
      name: z
        .string({ error: nameRule })
        .regex(/^[A-Za-z0-9_-]{1,32}$/, { error: nameRule })
        .describe("The name, as it stands in the address"),
      port: wholeNumber("The port that is listened on", { min: 1, max: 65_535 }),
      protocol: oneOf("What is spoken on it", protocols).optional(),
    }),
    output: z.object({ ok: z.boolean(), tunnel }),
    part: "tunnels",
  }),
  sandboxOperation({
    name: "unregister-tunnel",
    method: "DELETE",
    path: "/api/tunnels/:name",
    doc: "Stop serving a port.",
    tools: [
      {
        name: "unregister_tunnel",
        description: "Stop serving a port.",
        render: () => "The tunnel is closed.",
      },
    ],
    input: z.object({ name: text("The tunnel's name") }),
    output: ok,
    part: "tunnels",
  }),
] as const
