/** The life of one session's sandbox through all its generations: its phases with what is true in them, events and calls. */
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

/** What is known of the session in every phase. */
export const sessionSchema = z.object({
  /** Increases before every create, and is in the sandbox's name, labels, environment and runner token. */
  generation: z.number(),
  snapshot: z.object({ id: z.string(), version: z.string().optional() }).optional(),
  /** Snapshots that a create did not find. The fleet does not delete them while the session lives. Absent: none. */
  missingSnapshots: z.array(z.string()).optional(),
  /** The one call under way. `dirty`: the agent has worked since it was issued. */
  pending: z
    .object({ number: z.number(), call: callSchema, since: z.number(), dirty: z.boolean() })
    .optional(),
  /** The number of the last call. An answer with another number is late. */
  number: z.number(),
  /** Sandboxes to terminate: strays without unsaved work. */
  doomed: z.array(z.string()),
  /** Prompts of the session are queued or run. Absent: none. */
  waits: z.boolean().optional(),
  /** How often it did not come to run, in a row. */
  failures: z.number(),
  /** Consecutive answers without a result. */
  attempts: z.number(),
  lastError: z.string().optional(),
  retryAt: z.number().optional(),
  idleAt: z.number().optional(),
  /** The last use by people that is known, by the clock of the hub. Only a change counts. */
  usedAt: z.number().optional(),
  /** How long the provider lets the sandboxes of this session be idle. Absent: as long as those of others. */
  idleMs: z.number().optional(),
})

/** `deep`: sleep without memory, so it is saved and ended instead of paused. */
type Wish =
  | { readonly wanted: "running" | "ended"; readonly deep?: undefined }
  | { readonly wanted: "asleep"; readonly deep: boolean }

/** Facts about one sandbox. `phases` says which of them are true in which phase. */
interface Facts {
  /** Its id at the provider. */
  readonly ref: string
  /** When the provider ends it. */
  readonly expiresAt?: number | undefined
  /** Its connection as it was last heard of. `away`: none. */
  readonly runner: "away" | "idle" | "busy"
  /** `saved`: all of it is in the snapshot. `rescued`: the snapshot was made before a forced end, while the agent worked on. */
  readonly work: "none" | "unsaved" | "rescued" | "saved"
  /** The answer of a call that changes its state was lost: probe first. */
  readonly unsure: boolean
  /** Its create may have made a second one: look before anything else is asked. */
  readonly twin: boolean
  /** Save and end it, then continue in a new one. */
  readonly replace: boolean
  /** Its runner was started again since it was made or resumed. */
  readonly restarted: boolean
  /**
   * When the hook before a snapshot was last answered, or may have run: the runner sleeps until the hook after the snapshot.
   * `holds`: for the next snapshot, since nothing was done meanwhile. Absent: the runner is awake.
   */
  readonly hook?: { readonly at: number; readonly holds: boolean } | undefined
  /** Failures of that hook in a row. Absent: none. */
  readonly hookFailures?: number | undefined
  /** When it counts as not started. */
  readonly bootBy: number
  /** When to look again at one that was still being made when it was found: the process that makes it may have died. */
  readonly lookAt?: number | undefined
  /** Since when its runner has no connection. */
  readonly unlinkedAt: number
  readonly pausedAt: number
}

const ofMade = ["ref", "expiresAt", "work", "unsure", "twin", "replace", "restarted"] as const
const ofHook = ["hook", "hookFailures"] as const

/**
 * `creating`: a create is under way, or its answer was lost, so a sandbox may exist. `booting`: it runs, and its runner has no
 * connection.
 */
export const phases = {
  absent: [],
  creating: ["runner", "work"],
  booting: [...ofMade, ...ofHook, "bootBy", "lookAt", "unlinkedAt"],
  running: [...ofMade, ...ofHook, "runner"],
  paused: [...ofMade, ...ofHook, "runner", "pausedAt"],
  ended: [],
} as const satisfies Record<string, readonly (keyof Facts)[]>

export type Phase = keyof typeof phases
type FactName<P extends Phase> = (typeof phases)[P][number]
export type FactsOf<P extends Phase> = P extends Phase ? Pick<Facts, FactName<P>> : never

/** A life in this phase. Facts of other phases can be read, and are never there. */
export type In<P extends Phase> = P extends Phase
  ? z.output<typeof sessionSchema> &
      Wish & { readonly phase: P } & FactsOf<P> & {
        readonly [F in Exclude<keyof Facts, FactName<P>>]?: undefined
      }
  : never
export type Life = In<Phase>
/** Its sandbox is known. */
export type Made = In<"booting" | "running" | "paused">
export type Unmade = In<"absent" | "creating" | "ended">

export const newLife: In<"absent"> & { readonly wanted: "asleep" } = {
  phase: "absent",
  wanted: "asleep",
  deep: false,
  generation: 0,
  number: 0,
  doomed: [],
  failures: 0,
  attempts: 0,
}

export const isLinked = ({ runner = "away" }: Life): boolean => runner !== "away"
/** There may be work in the sandbox. */
export const isTouched = ({ work = "none" }: Life): boolean => work !== "none"

export const MAX_FAILURES = 5
/** Until the next request for it. */
export const isGivenUp = ({ failures }: Life): boolean => failures >= MAX_FAILURES
/** A sandbox may exist that is not known: look before anything else is asked. */
export const isInDoubt = ({ phase, pending, twin = false }: Life): boolean =>
  twin || (phase === "creating" && pending?.call.do !== "create")

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
