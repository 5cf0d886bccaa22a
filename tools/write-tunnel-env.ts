/** Writes an env file with the URLs of the tunnels. */
import { writeFile } from "node:fs/promises"
import { isAbsolute, join, relative } from "node:path"
import { z } from "zod"
import { flag, text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

const DEFAULT_FILE = ".env.tunnels"
const DEFAULT_PREFIX = "TUNNEL_"

const input = z.object({
  file_path: text(`File in the workspace; default: ${DEFAULT_FILE}`).optional(),
  prefix: z
    .string({ error: "must be text" })
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be a valid start of a variable name")
    .describe(`Prefix of the variables; default: ${DEFAULT_PREFIX}`)
    .optional(),
  include_gateway: flag("true adds the URL of the sandbox").optional(),
  set_api_url_from: text("Tunnel for API_URL").optional(),
  set_frontend_url_from: text("Tunnel for FRONTEND_URL").optional(),
  set_backend_url_from: text("Tunnel for BACKEND_URL").optional(),
})

type Input = z.output<typeof input>

/** One `NAME=URL` line per tunnel. Without a public URL of the sandbox the value is the path of the tunnel. */
export const envLines = (
  args: Input,
  tunnels: readonly { readonly name: string; readonly path: string }[],
  publicUrl: string | undefined,
): readonly string[] => {
  const base = publicUrl?.replace(/\/+$/, "") ?? ""
  const prefix = args.prefix ?? DEFAULT_PREFIX
  const urlOf = (name: string): string => {
    const tunnel = tunnels.find((candidate) => candidate.name === name)
    if (!tunnel) throw new Error(`There is no tunnel ${name}. Call register_tunnel first.`)
    return `${base}${tunnel.path}`
  }
  const aliases = [
    ["API_URL", args.set_api_url_from],
    ["FRONTEND_URL", args.set_frontend_url_from],
    ["BACKEND_URL", args.set_backend_url_from],
  ] as const
  return [
    ...(args.include_gateway && base !== "" ? [`${prefix}GATEWAY_URL=${base}`] : []),
    ...tunnels.map(({ name }) => `${prefix}${variableName(name)}_URL=${urlOf(name)}`),
    ...aliases.flatMap(([variable, name]) =>
      name === undefined ? [] : [`${variable}=${urlOf(name)}`],
    ),
  ]
}

const variableName = (name: string): string => name.toUpperCase().replaceAll("-", "_")

export const writeTunnelEnv = defineTool({
  description:
    "Write an env file with the URL of every tunnel, so that a frontend finds its backend. Register the tunnels first.",
  input,
  run: async (args, context) => {
    const path = join(context.directory, args.file_path ?? DEFAULT_FILE)
    const relativePath = relative(context.directory, path)
    if (relativePath.startsWith("..") || isAbsolute(args.file_path ?? "")) {
      throw new Error("file_path must be a path inside the workspace.")
    }
    const operation = operationNamed("list-tunnels")
    const reply = await callOperation({ operation, input: {}, context })
    const tunnel = z.object({ name: z.string(), path: z.string() })
    const { tunnels } = z.object({ tunnels: z.array(tunnel) }).parse(reply)
    if (tunnels.length === 0) throw new Error("There are no tunnels. Call register_tunnel first.")
    const publicUrl = process.env["SANDPIPER_PUBLIC_URL"]
    const lines = envLines(args, tunnels, publicUrl)
    await writeFile(path, `${lines.join("\n")}\n`)
    const note = publicUrl
      ? ""
      : "\nThe public URL of the sandbox is not known, so these are paths."
    return `Wrote ${relativePath}:\n${lines.join("\n")}${note}`
  },
})
