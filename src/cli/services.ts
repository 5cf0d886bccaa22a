/** `sandpiper services`: the services of this sandbox, as the agent and a person in its terminal use them. */
import { EventSourceParserStream } from "eventsource-parser/stream"
import { z } from "zod"
import { SettingsError } from "../settings/settings-error.ts"
import { type Command, print } from "./command.ts"
import { gatewayClient } from "./gateway-client.ts"
import { table } from "./table.ts"

const service = z.object({
  name: z.string(),
  command: z.string(),
  status: z.string(),
  listening: z.array(z.number()),
  pid: z.number().nullable(),
  restarts: z.number(),
  why: z.string().optional(),
})
const one = z.object({ service })
const list = z.object({ services: z.array(service), exposedPort: z.number().nullable() })
const exposed = z.object({ port: z.number(), containerUrl: z.string() })
const logEvent = z.object({ type: z.string(), content: z.string() })

export const services: Command = async ({ settings, args }) => {
  const { words = [], flags = new Map<string, string>(), json } = args
  const [name] = words
  const client = gatewayClient(settings)
  const show = (value: unknown, sentence: string): number => {
    print(json ? `${JSON.stringify(value)}\n` : sentence)
    return 0
  }
  const named = (): string => {
    if (name === undefined) throw new SettingsError(`services ${settings.operand} needs a NAME`)
    return encodeURIComponent(name)
  }
  switch (settings.operand) {
    case "start": {
      const [, ...command] = words
      if (name === undefined || command.length === 0) {
        throw new SettingsError("services start needs a NAME and, after --, a COMMAND")
      }
      const port = flags.get("port")
      const started = await client.call(one, "POST", "/api/services", {
        name,
        command: command.join(" "),
        ...(flags.has("cwd") && { cwd: flags.get("cwd") }),
        ...(port !== undefined && { port: portOf(port) }),
      })
      return show(
        started,
        `${started.service.name} is started. Its output: sandpiper services logs ${name}\n`,
      )
    }
    case "stop":
      await client.call(z.unknown(), "DELETE", `/api/services/${named()}`)
      return show({ ok: true }, `${name} is stopped.\n`)
    case "restart": {
      const started = await client.call(one, "POST", `/api/services/${named()}/restart`)
      return show(started, `${name} is restarted.\n`)
    }
    case "expose": {
      if (name === undefined) throw new SettingsError("services expose needs a PORT")
      const made = await client.call(exposed, "POST", "/api/expose", { port: portOf(name) })
      return show(made, `Port ${made.port} is the preview: ${made.containerUrl}\n`)
    }
    case "logs": {
      const response = await client.open("GET", `/api/logs/${named()}`)
      await printLog(response, args.follow === true)
      return 0
    }
    default: {
      const found = await client.call(list, "GET", "/api/services")
      const rows = found.services.map(({ name: id, status, pid, listening, command, why }) => [
        id,
        status,
        pid === null ? "-" : String(pid),
        listening.join(",") || "-",
        why ?? command,
      ])
      const text =
        rows.length === 0
          ? "There are no services. Start one: sandpiper services start web -- npm run dev\n"
          : table(["NAME", "STATUS", "PID", "PORTS", "COMMAND"], rows)
      return show(found, text)
    }
  }
}

const portOf = (text: string): number => {
  const port = Number(text)
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port
  throw new SettingsError(`"${text}" is not a port: it must be a number from 1 to 65535`)
}

/** Prints the last lines; with `follow`, everything after them until the stream ends. */
const printLog = async (response: Response, follow: boolean): Promise<void> => {
  const events = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
  for await (const { data } of events ?? []) {
    print(logEvent.parse(JSON.parse(data)).content)
    if (!follow) return
  }
}
