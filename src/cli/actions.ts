/** `sandpiper actions`: lists the operations of the gateway and runs one, until its approval and its end. */
import { z } from "zod"
import { sleep, systemClock } from "../lib/clock.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { type Method, type Operation, operations } from "../wire/operations/index.ts"
import { type Command, print } from "./command.ts"
import { type GatewayClient, gatewayClient } from "./gateway-client.ts"
import { table } from "./table.ts"

const executionReply = z.looseObject({
  execution: z.looseObject({ id: z.string(), status: z.string() }),
})

const waiting = z.object({ approval: z.string() })
const polled = z.discriminatedUnion("status", [
  z.object({ status: z.literal("waiting") }),
  z.object({
    status: z.literal("done"),
    reply: z.object({ status: z.number(), body: z.unknown() }),
  }),
])
const refused = z.object({ error: z.string() })

const POLL_MS = 1000
const OVER = new Set(["completed", "failed", "cancelled"])
/** Actions that start an execution of a workflow. Others answer with an execution too, and must not wait for its end. */
const STARTING = new Set(["run-workflow", "run-trigger"])

export const actions: Command = async ({ settings, args }) => {
  const { words = [], json } = args
  if (settings.operand === "list") {
    const rows = operations.map(({ name, doc }) => ({ name, doc }))
    const lines = rows.map(({ name, doc }) => [name, doc])
    print(json ? `${JSON.stringify(rows)}\n` : table(["ACTION", "WHAT IT DOES"], lines))
    return 0
  }
  const [name, text = "{}"] = words
  const operation = operations.find((one) => one.name === name)
  if (operation === undefined) {
    throw new SettingsError(
      `there is no action "${name ?? ""}": \`sandpiper actions list\` shows them`,
    )
  }
  const { path, body } = requestOf(operation, inputOf(text))
  const client = gatewayClient(settings)
  const result = await carryOut(client, operation.method, path, body)
  print(`${JSON.stringify(result, null, json ? 0 : 2)}\n`)
  const started = STARTING.has(operation.name) ? executionReply.safeParse(result).data : undefined
  if (started === undefined) return 0
  const ended = await awaitEnd(client, started.execution.id)
  print(`${JSON.stringify(ended, null, json ? 0 : 2)}\n`)
  return ended.execution.status === "completed" ? 0 : 1
}

const awaitEnd = async (
  client: GatewayClient,
  id: string,
): Promise<z.output<typeof executionReply>> => {
  const path = `/api/executions/${encodeURIComponent(id)}`
  let former = ""
  for (;;) {
    const now = await client.call(executionReply, "GET", path)
    const { status } = now.execution
    if (OVER.has(status)) return now
    if (status === "waiting_approval" && status !== former)
      process.stderr.write("Waiting for a person to approve it.\n")
    former = status
    await sleep(systemClock, POLL_MS)
  }
}

/** An action that needs an approval is polled until a person has answered and it is carried out. */
const carryOut = async (
  client: GatewayClient,
  method: Method,
  path: string,
  body: object | undefined,
): Promise<unknown> => {
  const response = await client.open(method, path, body, { prefer: "respond-async" })
  const reply: unknown = await response.json()
  if (response.status !== 202) return reply
  const { approval } = waiting.parse(reply)
  process.stderr.write("Waiting for a person to allow it.\n")
  for (;;) {
    const now = await client.call(polled, "GET", `/api/approvals/${encodeURIComponent(approval)}`)
    if (now.status === "done") {
      if (now.reply.status < 400) return now.reply.body
      throw new Error(
        refused.safeParse(now.reply.body).data?.error ??
          "the action failed without a reason: the log of the runner may have it",
      )
    }
    await sleep(systemClock, POLL_MS)
  }
}

const inputOf = (text: string): Readonly<Record<string, unknown>> => {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text))
  } catch {
    throw new SettingsError("the input of an action must be a JSON object")
  }
}

const WITHOUT_BODY: readonly Method[] = ["GET", "DELETE"]

/** Fields that the path names go into the path, the others into the body or the query. */
const requestOf = (
  { method, path }: Operation,
  input: Readonly<Record<string, unknown>>,
): { readonly path: string; readonly body?: object } => {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name)
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = input[name]
    if (typeof value !== "string" && typeof value !== "number") {
      throw new SettingsError(`the input of this action needs "${name}"`)
    }
    return encodeURIComponent(value)
  })
  const rest = Object.entries(input).filter(([name]) => !names.includes(name))
  if (!WITHOUT_BODY.includes(method)) return { path: filled, body: Object.fromEntries(rest) }
  const query = new URLSearchParams(
    Object.fromEntries(rest.map(([name, value]) => [name, String(value)])),
  )
  return { path: rest.length === 0 ? filled : `${filled}?${query.toString()}` }
}
