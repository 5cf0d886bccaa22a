/** Services of the sandbox: long-running shell commands by name, and the port that the user sees as the preview. */
import { z } from "zod"
import { sandboxOperation } from "./define.ts"
import { noInput, ok, oneOf, text, wholeNumber } from "./fields.ts"

const nameRule = "must be 1 to 40 letters, digits, _ or -"

const serviceName = z
  .string({ error: nameRule })
  .regex(/^[A-Za-z0-9_-]{1,40}$/, { error: nameRule })
  .describe("Name of the service")

const port = (doc: string) => wholeNumber(doc, { min: 1, max: 65_535 })

const service = z.object({
  name: z.string(),
  command: z.string(),
  cwd: z.string(),
  port: z.int().optional(),
  listening: z.array(z.int()),
  pid: z.int().nullable(),
  status: z.enum(["starting", "running", "restarting", "failed", "stopped"]),
  startedAt: z.string().nullable(),
  restarts: z.int(),
  why: z.string().optional(),
})

export const serviceInput = z.object({
  name: serviceName,
  command: text("Shell command"),
  cwd: text("Folder in the workspace; default: the workspace").optional(),
  port: port("The service is ready when it listens on this port, which it gets as PORT").optional(),
})

const byCommand = { none: "the agent uses the command `sandpiper services`" }

export const operations = [
  sandboxOperation({
    name: "list-services",
    method: "GET",
    path: "/api/services",
    doc: "List the services with their state, and the port of the preview.",
    tools: byCommand,
    input: noInput,
    output: z.object({ services: z.array(service), exposedPort: z.int().nullable() }),
  }),
  sandboxOperation({
    name: "start-service",
    method: "POST",
    path: "/api/services",
    doc: "Start a shell command as a service. A service of the same name is ended first.",
    tools: byCommand,
    input: serviceInput,
    output: z.object({ service }),
  }),
  sandboxOperation({
    name: "restart-service",
    method: "POST",
    path: "/api/services/:name/restart",
    doc: "End a service and start it again with the same command.",
    tools: byCommand,
    input: z.object({ name: serviceName }),
    output: z.object({ service }),
  }),
  sandboxOperation({
    name: "stop-service",
    method: "DELETE",
    path: "/api/services/:name",
    doc: "End a service with all its processes. It stays in the list and can be restarted.",
    tools: byCommand,
    input: z.object({ name: serviceName }),
    output: ok,
  }),
  sandboxOperation({
    name: "expose-port",
    method: "POST",
    path: "/api/expose",
    doc: "Make a port the preview: the tunnel `preview` leads to it. `containerUrl` is a path of the gateway where the sandbox does not know its address (SANDPIPER_PUBLIC_URL).",
    tools: byCommand,
    input: z.object({ port: port("Port of a server in the sandbox") }),
    output: z.object({ ok: z.boolean(), port: z.int(), containerUrl: z.string() }),
  }),
  sandboxOperation({
    name: "bootstrap-website",
    method: "POST",
    path: "/api/website",
    doc: "Install a website's packages, run its dev server as the service `web`, and expose its port. The server gets PORT: 3000, or another port if a program uses 3000. `port` is where it listens.",
    tools: byCommand,
    input: z.object({
      directory: text("Folder of the website; default: the workspace").optional(),
      template: oneOf("Files to create in an empty folder", ["static"]).optional(),
      waitSeconds: wholeNumber("How long to wait for the server; default: 120", {
        min: 0,
        max: 900,
      }).optional(),
    }),
    output: z.object({ service, port: z.int().nullable(), containerUrl: z.string().nullable() }),
  }),
  sandboxOperation({
    name: "restart-dev-server",
    method: "POST",
    path: "/api/website/restart",
    doc: "Restart the service `web` and expose its port again.",
    tools: byCommand,
    input: z.object({
      waitSeconds: wholeNumber("How long to wait for the server; default: 120", {
        min: 0,
        max: 900,
      }).optional(),
    }),
    output: z.object({ service, port: z.int().nullable(), containerUrl: z.string().nullable() }),
  }),
] as const
