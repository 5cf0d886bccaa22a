/** `sandpiper files`: files of the workspace over the gateway, as the agent's user. */
import { rename, rm } from "node:fs/promises"
import { z } from "zod"
import type { Arguments } from "../settings/arguments.ts"
import { savedWorkspace } from "../wire/operations/workspace.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { type Command, print } from "./command.ts"
import { type GatewayClient, gatewayClient } from "./gateway-client.ts"

type FileArguments = NonNullable<Arguments["files"]>

const entry = z.looseObject({
  name: z.string(),
  entryType: z.enum(["file", "directory"]),
  size: z.number(),
  modified: z.string(),
  special: z.string().optional(),
})

/** What a sub-command prints: JSON with `--json`, and otherwise the text. */
interface Result {
  readonly json: unknown
  readonly text: string
}

export const files: Command = async ({ settings, args }) => {
  const given = args.files ?? {
    paths: [],
    switches: new Set(),
    oldText: undefined,
    newText: undefined,
  }
  const client = gatewayClient(settings)
  const run = subcommands[settings.operand ?? ""]
  if (run === undefined) throw new SettingsError("files needs a sub-command")
  const result = await run(client, given)
  if (result === undefined) return 0
  print(args.json ? `${JSON.stringify(result.json)}\n` : result.text)
  return 0
}

type Subcommand = (client: GatewayClient, given: FileArguments) => Promise<Result | undefined>

const subcommands: Readonly<Record<string, Subcommand>> = {
  ls: async (client, { paths }) => {
    const [path = "."] = atMost(paths, 1, "ls [PATH]")
    const response = await client.open("GET", `/v1/fs/entries${queryOf({ path })}`)
    const entries = z.array(entry).parse(await response.json())
    return { json: entries, text: tableOf(entries, process.stdout.isTTY === true) }
  },
  cat: async (client, { paths }) => {
    const [path] = exactly(paths, 1, "cat PATH")
    const response = await client.open("GET", `/v1/fs/file${queryOf({ path })}`)
    if (process.stdout.isTTY === true) {
      for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? [])
        print(text)
      return undefined
    }
    for await (const bytes of response.body ?? []) await Bun.write(Bun.stdout, bytes)
    return undefined
  },
  put: async (client, { paths }) => {
    const [local = "", path] = exactly(paths, 2, "put LOCAL PATH")
    const body = Bun.file(local)
    if (!(await body.exists())) throw new Error(`there is no file ${local}`)
    return said(await client.open("PUT", `/v1/fs/file${queryOf({ path })}`, body), "written")
  },
  get: async (client, { paths }) => {
    const [path, local = ""] = exactly(paths, 2, "get PATH LOCAL")
    const response = await client.open("GET", `/v1/fs/file${queryOf({ path })}`)
    // A download that is cut leaves a former file as it was.
    const draft = `${local}.${crypto.randomUUID()}`
    try {
      const bytes = await Bun.write(draft, response)
      await rename(draft, local)
      return { json: { path: local, bytes }, text: `${local}: ${bytes} bytes\n` }
    } finally {
      await rm(draft, { force: true })
    }
  },
  rm: async (client, { paths, switches }) => {
    const [path] = exactly(paths, 1, "rm PATH [--recursive]")
    const recursive = switches.has("recursive") ? "true" : undefined
    return said(
      await client.open("DELETE", `/v1/fs/entry${queryOf({ path, recursive })}`),
      "deleted",
    )
  },
  mv: async (client, { paths, switches }) => {
    const [from, to] = exactly(paths, 2, "mv FROM TO [--overwrite]")
    const overwrite = switches.has("overwrite")
    return said(await client.open("POST", "/v1/fs/move", { from, to, overwrite }), "moved")
  },
  edit: async (client, { paths, switches, oldText, newText }) => {
    const usage = "edit PATH --old TEXT --new TEXT [--all]"
    const [path] = exactly(paths, 1, usage)
    if (oldText === undefined || newText === undefined) throw wrongUse(usage)
    const request = { path, oldText, newText, replaceAll: switches.has("all") }
    return said(await client.open("POST", "/v1/fs/edit", request), "edited")
  },
  save: async (client, { paths }) => {
    exactly(paths, 0, "save")
    const response = await client.open("POST", "/api/workspace/save", {})
    const saved = savedWorkspace.parse(await response.json())
    const text = `saved: ${saved.files} files, ${saved.uploaded} sent, ${saved.leftOut} left out\n`
    return { json: saved, text }
  },
}

const queryOf = (fields: Readonly<Record<string, string | undefined>>): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined) query.set(name, value)
  return `?${query.toString()}`
}

const reply = z.looseObject({ path: z.string().optional(), to: z.string().optional() })

const said = async (response: Response, what: string): Promise<Result> => {
  const json = reply.parse(await response.json())
  return { json, text: `${json.to ?? json.path ?? ""}: ${what}\n` }
}

const exactly = (paths: readonly string[], count: number, usage: string): readonly string[] => {
  if (paths.length !== count) throw wrongUse(usage)
  return paths
}

const atMost = (paths: readonly string[], count: number, usage: string): readonly string[] => {
  if (paths.length > count) throw wrongUse(usage)
  return paths
}

const wrongUse = (usage: string): SettingsError =>
  new SettingsError(`usage: sandpiper files ${usage}`)

/** Aligned columns for a person, columns separated by tabs for a program. */
const tableOf = (entries: readonly z.output<typeof entry>[], isTerminal: boolean): string => {
  const rows = entries.map(({ name, entryType, size, modified, special }) => [
    special ?? entryType,
    String(size),
    modified,
    name,
  ])
  if (!isTerminal) return rows.map((row) => `${row.join("\t")}\n`).join("")
  const all = [["TYPE", "SIZE", "MODIFIED", "NAME"], ...rows]
  const widths = [0, 1, 2].map((column) =>
    Math.max(...all.map((row) => (row[column] ?? "").length)),
  )
  return all
    .map((row) => `${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ")}\n`)
    .join("")
}
