/** `sandpiper fleet`: shows and changes the sandboxes of the `serve` that runs on this state directory. */
import { z } from "zod"
import { readAddress } from "../hub/hosts/bun/address.ts"
import { type Command, print } from "./command.ts"
import { table } from "./table.ts"

const sandbox = z.looseObject({
  sessionId: z.string(),
  provider: z.string(),
  status: z.string(),
  generation: z.number(),
  providerSandboxId: z.string().nullable(),
  inPool: z.boolean().optional(),
  lastError: z.string().optional(),
})

const listing = z.object({ sandboxes: z.array(sandbox), next: z.string().optional() })

const history = z.object({
  sandboxes: z.array(
    z.looseObject({
      generation: z.number(),
      provider: z.string(),
      providerSandboxId: z.string(),
      image: z.string().nullable(),
      createdAt: z.number(),
      endedAt: z.number().nullable(),
      whyEnded: z.string().nullable(),
      seconds: z.number(),
      cost: z.number().optional(),
    }),
  ),
})

const timeOf = (at: number | null): string =>
  at === null ? "-" : new Date(at).toISOString().slice(0, 19).replace("T", " ")

/** One line for each sandbox. The cost is shown if a price was set. */
const historyTable = ({ sandboxes }: z.output<typeof history>): string => {
  const hasCost = sandboxes.some(({ cost }) => cost !== undefined)
  const head = ["gen", "created (UTC)", "ended (UTC)", "why", "seconds"]
  return table(
    [...head, ...(hasCost ? ["cost"] : []), "provider", "made from", "sandbox"],
    sandboxes.map((one) => [
      String(one.generation),
      timeOf(one.createdAt),
      timeOf(one.endedAt),
      one.whyEnded ?? "-",
      String(Math.round(one.seconds)),
      ...(hasCost ? [one.cost === undefined ? "-" : one.cost.toFixed(4)] : []),
      one.provider,
      one.image ?? "-",
      one.providerSandboxId,
    ]),
  )
}

const sandboxTable = (sandboxes: readonly z.output<typeof sandbox>[]): string =>
  table(
    ["session", "status", "provider", "gen", "sandbox"],
    sandboxes.map((one) => [
      one.sessionId,
      `${one.status}${one.inPool === true ? " (pool)" : ""}`,
      one.provider,
      String(one.generation),
      `${one.providerSandboxId ?? "-"}${one.lastError === undefined ? "" : ` (${one.lastError})`}`,
    ]),
  )

const sweepResult = z.object({
  seen: z.number(),
  leaked: z.array(z.string()),
  terminated: z.number(),
  lostSnapshots: z.array(z.string()),
})

const sweepText = ({
  seen,
  leaked,
  terminated,
  lostSnapshots,
}: z.output<typeof sweepResult>): string =>
  `${seen} sandboxes seen, ${leaked.length} without a session, ${terminated} ended, ` +
  `${lostSnapshots.length} snapshots that no session knows\n` +
  [...leaked.map((name) => `sandbox ${name}`), ...lostSnapshots.map((name) => `snapshot ${name}`)]
    .map((line) => `${line}\n`)
    .join("")

/** More than a base snapshot takes. */
const CALL_MS = 30 * 60_000

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
      // A base snapshot may take longer than a connection may be idle by default.
      timeout: false,
      signal: AbortSignal.timeout(CALL_MS),
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
      show({ sandboxes }, () => sandboxTable(sandboxes))
      return 0
    }
    case "show": {
      const status = sandbox.parse(await ask("GET", `/api/sandbox/${named()}/status`))
      const had = history.parse(await ask("GET", `/api/sandbox/${named()}/history`))
      show({ ...status, sandboxes: had.sandboxes }, () => {
        const list = had.sandboxes.length === 0 ? "" : `\n${historyTable(had)}`
        return `${sandboxTable([status])}${list}`
      })
      return 0
    }
    case "sweep": {
      const body = await ask("POST", `/api/sweep${args.dryRun === true ? "?dryRun=1" : ""}`)
      show(body, () => sweepText(sweepResult.parse(body)))
      return 0
    }
    case "base-snapshot": {
      const body = await ask("POST", `/api/base-snapshot${args.again === true ? "?again=1" : ""}`)
      const made = z.object({ snapshotId: z.string(), isNew: z.boolean() }).parse(body)
      show(body, () =>
        made.isNew
          ? `${made.snapshotId} was made\n`
          : `${made.snapshotId} exists for this version; --again makes a new one\n`,
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
