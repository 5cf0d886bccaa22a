/** Writes an env file with the addresses under which people reach the sandbox's tunnels. */
import { writeFile } from "node:fs/promises"
import { isAbsolute, join, relative } from "node:path"
import { z } from "zod"
import { flag, text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const FILE = ".env.tunnels"
const PREFIX = "TUNNEL_"

const input = z.object({
  file_path: text(`File to write, in the workspace; ${FILE} when absent`).optional(),
  prefix: z
    .string({ error: "must be text" })
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the start of a variable's name")
    .describe(`What the variables' names begin with; ${PREFIX} when absent`)
    .optional(),
  include_gateway: flag("Whether the sandbox's own address is written too").optional(),
  set_api_url_from: text("Tunnel whose address API_URL gets").optional(),
  set_frontend_url_from: text("Tunnel whose address FRONTEND_URL gets").optional(),
  set_backend_url_from: text("Tunnel whose address BACKEND_URL gets").optional(),
})

type Input = z.output<typeof input>

/** A tunnel's address; without a public address of the sandbox, its path on whatever address the page has. */
export const envLines = (
  given: Input,
  tunnels: readonly { readonly name: string; readonly path: string }[],
  publicUrl: string | undefined,
): readonly string[] => {
  const base = publicUrl?.replace(/\/+$/, "") ?? ""
  const prefix = given.prefix ?? PREFIX
  const addressOf = (name: string): string => {
    const tunnel = tunnels.find((candidate) => candidate.name === name)
    if (!tunnel) throw new Error(`There is no tunnel ${name}. Call register_tunnel first.`)
    return `${base}${tunnel.path}`
  }
  const named = [
    ["API_URL", given.set_api_url_from],
    ["FRONTEND_URL", given.set_frontend_url_from],
    ["BACKEND_URL", given.set_backend_url_from],
  ] as const
  return [
    ...(given.include_gateway && base !== "" ? [`${prefix}GATEWAY_URL=${base}`] : []),
    ...tunnels.map(({ name }) => `${prefix}${variableName(name)}_URL=${addressOf(name)}`),
    ...named.flatMap(([variable, name]) =>
      name === undefined ? [] : [`${variable}=${addressOf(name)}`],
    ),
  ]
}

const variableName = (name: string): string => name.toUpperCase().replaceAll("-", "_")

export const writeTunnelEnv = defineTool({
  description:
    "Write an env file with the address of every tunnel, so that a frontend finds its backend. Register the tunnels first.",
  input,
  run: async (given, context) => {
    const path = join(context.directory, given.file_path ?? FILE)
    const inside = relative(context.directory, path)
    if (inside.startsWith("..") || isAbsolute(given.file_path ?? "")) {
      throw new Error("file_path must be a path inside the workspace.")
    }
    const operation = operationNamed("list-tunnels")
    const reply = await callOperation({ operation, input: {}, context })
    const tunnel = z.object({ name: z.string(), path: z.string() })
    const { tunnels } = z.object({ tunnels: z.array(tunnel) }).parse(reply)
    if (tunnels.length === 0) throw new Error("There are no tunnels. Call register_tunnel first.")
    const publicUrl = process.env["SANDPIPER_PUBLIC_URL"]
    const lines = envLines(given, tunnels, publicUrl)
    await writeFile(path, `${lines.join("\n")}\n`)
    const note = publicUrl
      ? ""
      : "\nThe sandbox's public address is not known: these are paths on the address that the page is opened at."
    return `Wrote ${inside}:\n${lines.join("\n")}${note}`
  },
})
