/** `sandpiper key`: API keys of the running `sandpiper up`, and the rotation of its encryption key. */
import { z } from "zod"
import { SettingsError } from "../settings/settings-error.ts"
import type { Arguments } from "../settings/arguments.ts"
import { type Command, print } from "./command.ts"
import { findHub } from "./find-hub.ts"

type KeyArguments = NonNullable<Arguments["key"]>

const DAY_MS = 86_400_000

const apiKey = z.object({
  prefix: z.string(),
  owner: z.string(),
  name: z.string(),
  scopes: z.array(z.string()),
  createdAt: z.number(),
  expiresAt: z.number().optional(),
  revokedAt: z.number().optional(),
  lastUsedAt: z.number().optional(),
})
const created = z.object({ key: z.string(), row: apiKey })
const listed = z.object({ keys: z.array(apiKey) })
const rotated = z.object({ sessions: z.number() })
const refused = z.object({ error: z.object({ message: z.string() }) })

export const key: Command = async ({ settings, args }) => {
  const given: KeyArguments = args.key ?? noArguments
  const hub = findHub(settings)
  const owner = given.owner === undefined ? "" : `?owner=${encodeURIComponent(given.owner)}`
  const call = async <Schema extends z.ZodType>(
    schema: Schema,
    method: string,
    path: string,
    body?: object,
  ): Promise<z.output<Schema>> => {
    const response = await fetch(`${hub.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${hub.token}` },
      ...(body && { body: JSON.stringify(body) }),
    })
    const answer: unknown = await response.json()
    if (response.ok) return schema.parse(answer)
    const why = refused.safeParse(answer).data?.error.message ?? `HTTP ${response.status}`
    throw new Error(`the session agent at ${hub.url}: ${why}`)
  }
  switch (settings.operand) {
    case "create": {
      if (given.scope === undefined)
        throw new SettingsError('key create needs --scope, such as --scope "sessions:write"')
      const made = await call(created, "POST", `/keys${owner}`, {
        scopes: given.scope.split(/[\s,]+/).filter((scope) => scope !== ""),
        ...(given.name !== undefined && { name: given.name }),
        ...(given.days !== undefined && { expiresAt: Date.now() + daysOf(given.days) * DAY_MS }),
      })
      print(`${made.key}\n`)
      return 0
    }
    case "list": {
      const { keys } = await call(listed, "GET", `/keys${owner}`)
      print(keys.length === 0 ? "There are no keys.\n" : keys.map(describe).join(""))
      return 0
    }
    case "revoke": {
      if (given.prefix === undefined)
        throw new SettingsError("key revoke needs the PREFIX that `sandpiper key list` shows")
      await call(z.unknown(), "DELETE", `/keys/${encodeURIComponent(given.prefix)}${owner}`)
      print(`The key ${given.prefix} is revoked.\n`)
      return 0
    }
    default: {
      const { sessions } = await call(rotated, "POST", "/keys/rotate")
      print(`The configs of ${sessions} sessions are encrypted with the first key.\n`)
      return 0
    }
  }
}

const noArguments: KeyArguments = {
  prefix: undefined,
  owner: undefined,
  scope: undefined,
  name: undefined,
  days: undefined,
}

const daysOf = (text: string): number => {
  const days = Number(text)
  if (Number.isInteger(days) && days > 0) return days
  throw new SettingsError("--days must be a positive whole number")
}

const describe = (row: z.output<typeof apiKey>): string => {
  const day = (at: number) => new Date(at).toISOString().slice(0, 10)
  const state =
    row.revokedAt !== undefined
      ? `revoked ${day(row.revokedAt)}`
      : row.expiresAt !== undefined
        ? `until ${day(row.expiresAt)}`
        : "active"
  const used = row.lastUsedAt === undefined ? "never used" : `used ${day(row.lastUsedAt)}`
  return `${row.prefix}  ${row.owner}  ${row.scopes.join(",")}  ${state}  ${used}  ${row.name}\n`
}
