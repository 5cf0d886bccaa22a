/** `sandpiper fleet`: shows and changes the sandboxes of the `serve` that runs on this state directory. */
import { z } from "zod"
import { readAddress } from "../hub/hosts/bun/address.ts"
import { type Command, print } from "./command.ts"

const sandbox = z.looseObject({
  sessionId: z.string(),
  provider: z.string(),
  status: z.string(),
  generation: z.number(),
  providerSandboxId: z.string().nullable(),
  lastError: z.string().optional(),
})

const listing = z.object({ sandboxes: z.array(sandbox), next: z.string().optional() })

const line = (one: z.output<typeof sandbox>): string =>
  [
    one.sessionId.padEnd(32),
    one.status.padEnd(11),
    one.provider.padEnd(8),
    String(one.generation).padEnd(4),
    one.providerSandboxId ?? "-",
    ...(one.lastError === undefined ? [] : [`(${one.lastError})`]),
  ].join(" ")

const HEAD = `${"session".padEnd(32)} ${"status".padEnd(11)} ${"provider".padEnd(8)} ${"gen".padEnd(4)} sandbox\n`

export const fleet: Command = async ({ settings, args }) => {
  const address = readAddress(settings.stateDir)
  if (!address)
    throw new Error(
      `no \`serve\` runs on ${settings.stateDir}: start it, or name its directory with --state-dir`,
    )
  const ask = async (method: string, path: string): Promise<unknown> => {
    const response = await fetch(`${address.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${address.token}` },
    })
    const body: unknown = await response.json()
    if (response.ok) return body
    const { error } = z.object({ error: z.string() }).parse(body)
    throw new Error(error)
  }
  const show = (body: unknown, text: () => string) =>
    print(args.json === true ? `${JSON.stringify(body)}\n` : text())
  const session = args.text
  const named = () => {
    if (session === undefined || session === "")
      throw new Error("name a session: sandpiper fleet ls lists them")
    return encodeURIComponent(session)
  }
  switch (settings.operand) {
    case "ls": {
      const sandboxes: z.output<typeof sandbox>[] = []
      let next: string | undefined
      do {
        const after = next === undefined ? "" : `?after=${encodeURIComponent(next)}`
        const page = listing.parse(await ask("GET", `/api/sandboxes${after}`))
        sandboxes.push(...page.sandboxes)
        ;({ next } = page)
      } while (next !== undefined)
      show({ sandboxes }, () => HEAD + sandboxes.map((one) => `${line(one)}\n`).join(""))
      return 0
    }
    case "show": {
      const body = await ask("GET", `/api/sandbox/${named()}/status`)
      show(body, () => `${HEAD}${line(sandbox.parse(body))}\n`)
      return 0
    }
    case "sweep": {
      const body = await ask("POST", `/api/sweep${args.dryRun === true ? "?dryRun=1" : ""}`)
      const result = z
        .object({ seen: z.number(), leaked: z.array(z.string()), terminated: z.number() })
        .parse(body)
      show(
        body,
        () =>
          `${result.seen} sandboxes seen, ${result.leaked.length} without a session, ${result.terminated} ended\n`,
      )
      return 0
    }
    case "base-snapshot": {
      const body = await ask("POST", "/api/base-snapshot")
      const made = z.object({ snapshotId: z.string(), isNew: z.boolean() }).parse(body)
      show(
        body,
        () => `${made.snapshotId}${made.isNew ? " was made" : " exists for this version"}\n`,
      )
      return 0
    }
    default: {
      const body = await ask("DELETE", `/api/sandbox/${named()}`)
      show(body, () => `${session} is forgotten; the next sweep ends its sandbox\n`)
      return 0
    }
  }
}
