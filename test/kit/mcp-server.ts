/**
 * An MCP server with one tool, `say`, over stdio or over streamable HTTP with JSON responses.
 * As a program: `bun mcp-server.ts`; with the argument `silent` it starts and never responds.
 */
import { z } from "zod"

const message = z.object({
  id: z.union([z.number(), z.string()]).optional(),
  method: z.string().optional(),
  params: z
    .looseObject({
      protocolVersion: z.string().optional(),
      arguments: z.object({ words: z.string() }).optional(),
    })
    .optional(),
})

const say = {
  name: "say",
  description: "Returns the given text",
  inputSchema: { type: "object", properties: { words: { type: "string" } }, required: ["words"] },
}

/** Undefined for a notification, which has no response. */
const answer = (text: string, voice: string): object | undefined => {
  const { id, method, params } = message.parse(JSON.parse(text))
  if (id === undefined) return undefined
  const reply = (result: object) => ({ jsonrpc: "2.0", id, result })
  switch (method) {
    case "initialize":
      return reply({
        protocolVersion: params?.protocolVersion ?? "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "test", version: "1" },
      })
    case "tools/list":
      return reply({ tools: [say] })
    case "tools/call":
      return reply({
        content: [{ type: "text", text: `${voice} heard: ${params?.arguments?.words}` }],
      })
    default:
      return { jsonrpc: "2.0", id, error: { code: -32_601, message: `no method ${method}` } }
  }
}

/** Serves `/mcp` to clients that send this key in the header `x-key`. */
export const startHttpMcp = (key: string) => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      if (request.headers.get("x-key") !== key) return new Response("no", { status: 403 })
      if (request.method !== "POST") return new Response(null, { status: 405 })
      const said = answer(await request.text(), "remote")
      return said ? Response.json(said) : new Response(null, { status: 202 })
    },
  })
  return { url: `${server.url.origin}/mcp`, stop: () => server.stop(true) }
}

if (import.meta.main) {
  const isSilent = process.argv[2] === "silent"
  for await (const line of console) {
    const said = isSilent ? undefined : answer(line, process.env["VOICE"] ?? "local")
    if (said) process.stdout.write(`${JSON.stringify(said)}\n`)
  }
}
