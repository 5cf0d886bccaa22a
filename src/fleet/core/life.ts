/** The life of one session's sandbox through all its generations: its stored state, events and calls. */
import { z } from "zod"
import type { Capabilities, ProviderResult, SandboxInfo } from "../providers/contract.ts"

const callSchema = z.discriminatedUnion("do", [
  /** A new sandbox. Its generation was stored before the call. */
  z.object({ do: z.literal("create"), generation: z.number(), snapshot: z.string().optional() }),
  /** Lists the sandboxes of the session: a create may exist whose answer was lost. */
  z.object({ do: z.literal("find"), generation: z.number() }),
  /** Reads the state of one sandbox. */
  z.object({ do: z.literal("probe"), ref: z.string() }),
  z.object({ do: z.literal("pause"), ref: z.string() }),
  z.object({ do: z.literal("resume"), ref: z.string() }),
  /** The hook before a snapshot: turns end, secrets leave the disk. */
  z.object({ do: z.literal("prepare"), ref: z.string() }),
  /** `ends`: a terminate follows, unless the sandbox is wanted again meanwhile. */
  z.object({ do: z.literal("snapshot"), ref: z.string(), ends: z.boolean().optional() }),
  /** The hook after a snapshot of a sandbox that continues. */
  z.object({ do: z.literal("release"), ref: z.string() }),
  /** Starts the runner in a running sandbox again. */
  z.object({ do: z.literal("restart"), ref: z.string() }),
  z.object({ do: z.literal("terminate"), ref: z.string() }),
])
export type Call = z.output<typeof callSchema>

export const lifeSchema = z.object({
  wanted: z.enum(["running", "asleep", "ended"]),
  phase: z.enum(["absent", "booting", "running", "paused", "ended"]),
  /** Increases before every create, and is in the sandbox's name, labels, environment and runner token. */
  generation: z.number(),
  ref: z.string().optional(),
  /** When the provider ends the sandbox. */
  expiresAt: z.number().optional(),
  snapshot: z.object({ id: z.string(), version: z.string().optional() }).optional(),
  /** Snapshots that a create did not find. The fleet does not delete them while the session lives. Absent: none. */
  missingSnapshots: z.array(z.string()).optional(),
  /** The one call under way. `dirty`: the agent has worked since it was issued. */
  pending: z
    .object({ number: z.number(), call: callSchema, since: z.number(), dirty: z.boolean() })
    .optional(),
  /** The number of the last call. An answer with another number is late. */
  number: z.number(),
  /** A create may exist whose answer was lost: look before anything else is asked. */
  doubt: z.boolean(),
  /** The answer of a call that changes the sandbox's state was lost: probe first. */
  unsure: z.boolean(),
  /** Sandboxes to terminate: strays without unsaved work. */
  doomed: z.array(z.string()),
  /** A runner of this generation is connected. */
  linked: z.boolean(),
  busy: z.boolean(),
  /** Prompts of the session are queued or run. Absent: none. */
  waits: z.boolean().optional(),
  /** There may be work in the sandbox. */
  touched: z.boolean(),
  /** That work is in the snapshot. */
  saved: z.boolean(),
  /** The hook before the snapshot has run for the next snapshot, and nothing was done since. */
  prepared: z.boolean(),
  /** When that hook was last answered, or may have run: the runner sleeps until the hook after the snapshot. Absent: it is awake. */
  preparedAt: z.number().optional(),
  /** Failures of that hook in a row. Absent: none. */
  hookFailures: z.number().optional(),
  /** Save and end this sandbox, then continue in a new one. */
  replace: z.boolean(),
  /** Sleep without memory: save and end instead of pausing. */
  deep: z.boolean(),
  /** A snapshot of the busy sandbox was made before its forced end. */
  rescued: z.boolean(),
  /** The runner was started again in this boot. */
  restarted: z.boolean(),
  /** Given up until the next request for it. */
  failed: z.boolean(),
  failures: z.number(),
  /** Consecutive answers without a result. */
  attempts: z.number(),
  lastError: z.string().optional(),
  retryAt: z.number().optional(),
  bootBy: z.number().optional(),
  /**
   * When to look again at a sandbox that was still being made when it was found: the process that makes it may have died. Absent:
   * only `bootBy` counts.
   */
  lookAt: z.number().optional(),
  idleAt: z.number().optional(),
  /** The last use by people that is known, by the clock of the hub. Only a change counts. */
  usedAt: z.number().optional(),
  pausedAt: z.number().optional(),
  /** Since when the runner of a sandbox that should run has no connection. Absent: it has one. */
  unlinkedAt: z.number().optional(),
  /** How long the provider lets the sandboxes of this session be idle. Absent: as long as those of others. */
  idleMs: z.number().optional(),
})
export type Life = z.output<typeof lifeSchema>

/** The fields about a sandbox while there is none. */
export const noSandbox = {
  phase: "absent",
  linked: false,
  busy: false,
  touched: false,
  saved: false,
  prepared: false,
  replace: false,
  rescued: false,
  restarted: false,
  unsure: false,
} as const satisfies Partial<Life>

export const newLife: Life = {
  ...noSandbox,
  wanted: "asleep",
  generation: 0,
  number: 0,
  doubt: false,
  doomed: [],
  deep: false,
  failed: false,
  failures: 0,
  attempts: 0,
}

export interface LifePolicy {
  readonly can: Capabilities
  /** From the create or resume to the runner's connection. */
  readonly bootMs: number
  /** How long a running sandbox may be without its runner's connection. */
  readonly relinkMs: number
  readonly idleMs: number
  /** How long a paused sandbox stays paused before it is saved and ended. Absent: for any time. */
  readonly pausedMs: number | undefined
  /** A snapshot of an older runtime is not restored. */
  readonly minimumVersion: string | undefined
  /** False: a sandbox that is gone gets no successor until it is asked for again. Absent: it gets one while it is wanted. */
  readonly hasSuccessors?: boolean
  /** False: nothing runs in a sandbox, so none can lose work. Absent: its files may be work. */
  readonly hasFiles?: boolean
}

/** What the runner says at the gateway of its sandbox. `unknown`: it could not be asked. */
export type RunnerHealth = "ok" | "none" | "unknown"

/** What a call came to. `blocked`: the call was not made, since the provider refuses all creates at the moment. */
export type Answer =
  | ProviderResult<{
      readonly ref?: string
      readonly expiresAt?: number | undefined
      /** What a new sandbox was made from. */
      readonly image?: string
      readonly found?: readonly SandboxInfo[]
      readonly info?: SandboxInfo
      /** With `info`, of a sandbox whose runner has lost its connection. */
      readonly health?: RunnerHealth
      readonly snapshot?: { readonly id: string; readonly version?: string }
      /** The snapshot has paused the sandbox. */
      readonly isPaused?: boolean
    }>
  | { readonly is: "blocked"; readonly why: string; readonly afterMs: number }

export type LifeEvent = { readonly at: number } & (
  | {
      readonly type: "want"
      readonly wanted: Life["wanted"]
      readonly deep?: boolean
      /** Prompts want it to run: one that runs them before it sleeps does so. */
      readonly forPrompts?: boolean
    }
  | {
      readonly type: "answer"
      readonly number: number
      readonly call: Call
      readonly answer: Answer
    }
  /** The process that made the call is gone: its answer will not come, or come late. */
  | { readonly type: "lost"; readonly number: number }
  | {
      readonly type: "runner"
      readonly generation: number
      readonly linked: boolean
      readonly busy: boolean
      /** Prompts are queued or run. They are the session's, whatever the generation. */
      readonly waits?: boolean
      /** When people last worked in the sandbox, by the clock of the hub. */
      readonly usedAt?: number | undefined
    }
  /** The sweep's list of the sandboxes that carry this session's label. */
  | { readonly type: "seen"; readonly found: readonly SandboxInfo[] }
  | { readonly type: "due" }
)

export type LifeEffect =
  | { readonly do: "call"; readonly number: number; readonly call: Call }
  /** A message for the conversation. */
  | { readonly do: "note"; readonly text: string }
