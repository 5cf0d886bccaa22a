/** Tunnels: ports of the sandbox that the gateway serves under `/t/<name>/`. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { noInput, ok, oneOf, text, wholeNumber } from "./fields.ts"
import { renderList } from "./render.ts"

const nameRule = "must be 1 to 32 letters, digits, _ or -"

const protocols = ["http", "ws", "auto"] as const

export const tunnel = z.object({
  name: z.string(),
  port: z.int(),
  protocol: z.enum(protocols).optional(),
  path: z.string(),
  /** True if a server accepted a connection on the port when the list was made. */
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
        description:
          "List the tunnels: ports of this sandbox that the user can open, with their paths.",
        render: ({ tunnels }) => renderList(tunnels, "tunnel", "tunnels"),
      },
    ],
    input: noInput,
    output: z.object({ tunnels: z.array(tunnel) }),
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
          "Make a port of this sandbox, such as a dev server, available to the user. Start the server first.",
        render: ({ tunnel: made }) =>
          made.listening === false
            ? `The tunnel is at ${made.path}/ on this sandbox's URL, but nothing listens on port ${made.port} yet: start the server. The tunnel then leads to it.`
            : `Port ${made.port} is open at ${made.path}/ on this sandbox's URL.`,
      },
    ],
    input: z.object({
      name: z
        .string({ error: nameRule })
        .regex(/^[A-Za-z0-9_-]{1,32}$/, { error: nameRule })
        .describe("Name in the URL"),
      port: wholeNumber("Port of the server", { min: 1, max: 65_535 }),
      protocol: oneOf("Protocol; default: auto", protocols).optional(),
    }),
    output: z.object({ ok: z.boolean(), tunnel }),
  }),
  sandboxOperation({
    name: "unregister-tunnel",
    method: "DELETE",
    path: "/api/tunnels/:name",
    doc: "Close a tunnel.",
    tools: [
      {
        name: "unregister_tunnel",
        description: "Close a tunnel.",
        render: () => "Tunnel closed.",
      },
    ],
    input: z.object({ name: text("Name of the tunnel") }),
    output: ok,
  }),
] as const
