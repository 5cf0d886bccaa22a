/** The shapes of Daytona's REST API, the meaning of its states, and commands in its toolbox. */
import { shellQuoted } from "../../lib/shell-quote.ts"
import { z } from "zod"
import type { SandboxCommand, SandboxCommandResult, SandboxInfo } from "./contract.ts"
import { ownerOf } from "./cloud-labels.ts"
import type { HttpAnswer } from "./http.ts"

/** Ids and names of sandboxes. */
export const DAYTONA_REF = /^[A-Za-z0-9][\w-]{0,99}$/

/** Servers of Daytona in each sandbox: toolbox, terminal and recordings. They run commands, and the agent must not. */
export const DAYTONA_PORTS = [2280, 22_222, 33_333] as const

export const daytonaSandbox = z.object({
  id: z.string().regex(DAYTONA_REF),
  state: z.string().default("unknown"),
  errorReason: z.string().nullish(),
  recoverable: z.boolean().nullish(),
  labels: z.record(z.string(), z.string()).default({}),
  createdAt: z.string().optional(),
  toolboxProxyUrl: z.string().optional(),
})
export type DaytonaSandbox = z.output<typeof daytonaSandbox>

export const daytonaPage = z.object({
  items: z.array(daytonaSandbox),
  nextCursor: z.string().nullish(),
})
export const daytonaSnapshot = z.object({ id: z.string().regex(DAYTONA_REF), state: z.string() })
export const daytonaSnapshots = z.object({
  items: z.array(z.object({ name: z.string() })),
  totalPages: z.number(),
})
export const daytonaPreview = z.object({ url: z.url(), token: z.string() })

const states: Readonly<Record<string, SandboxInfo["state"]>> = {
  started: "running",
  snapshotting: "running",
  resizing: "running",
  forking: "running",
  paused: "paused",
  pausing: "paused",
  stopped: "stopped",
  stopping: "stopped",
  archived: "stopped",
  archiving: "stopped",
  // Its disk may still be there.
  error: "stopped",
  // It has never run.
  build_failed: "dead",
}

export const isGone = ({ state }: DaytonaSandbox): boolean => state === "destroyed"

export const daytonaInfo = (box: DaytonaSandbox): SandboxInfo => {
  const createdAt = Date.parse(box.createdAt ?? "")
  return {
    ref: box.id,
    state: states[box.state] ?? "starting",
    ...ownerOf(box.labels),
    createdAt: Number.isNaN(createdAt) ? undefined : createdAt,
    expiresAt: undefined,
  }
}

/** A change of state that a call begins. */
export interface Change {
  readonly verb: string
  /** States before the change begins. */
  readonly from: readonly string[]
  /** States in between. */
  readonly moving: readonly string[]
  readonly goal: readonly string[]
  readonly waitMs: number
}

export const changes = {
  pause: {
    verb: "pause",
    from: ["started"],
    moving: ["pausing", "stopping"],
    goal: ["paused", "stopped"],
    waitMs: 2 * 60_000,
  },
  stop: {
    verb: "stop",
    from: ["started"],
    moving: ["stopping"],
    goal: ["stopped"],
    waitMs: 2 * 60_000,
  },
  start: {
    verb: "start",
    from: ["paused", "stopped", "archived", "pausing", "stopping"],
    moving: ["starting", "resuming", "restoring", "pulling_snapshot"],
    goal: ["started"],
    waitMs: 4 * 60_000,
  },
} satisfies Readonly<Record<string, Change>>

/** The toolbox returns both outputs as one text, so the command's outputs are two lines of base64. */
const SEPARATE = `folder=$(mktemp -d) && { "$@" >"$folder/out" 2>"$folder/err"; code=$?
base64 "$folder/out" | tr -d '\\n'; echo; base64 "$folder/err" | tr -d '\\n'; echo
rm -rf "$folder"; exit "$code"; }`

export const toolboxCommand = ({ argv }: Pick<SandboxCommand, "argv">): string =>
  ["/bin/sh", "-c", SEPARATE, "sh", ...argv].map(shellQuoted).join(" ")

const executed = z.object({ exitCode: z.number().default(0), result: z.string() })
const LINES = /^([A-Za-z0-9+/=]*)\n([A-Za-z0-9+/=]*)\n$/

/** Undefined: the output is not that of `toolboxCommand`. */
export const readToolbox = ({ json }: HttpAnswer): SandboxCommandResult | undefined => {
  const parsed = executed.safeParse(json)
  const lines = parsed.success ? LINES.exec(parsed.data.result) : null
  if (!parsed.success || !lines) return undefined
  const decode = (line = "") => Buffer.from(line, "base64").toString()
  return { exitCode: parsed.data.exitCode, stdout: decode(lines[1]), stderr: decode(lines[2]) }
}
