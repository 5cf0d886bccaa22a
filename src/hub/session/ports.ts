/** What a session needs of its host: a database, sockets, blobs, a clock and one alarm. */
import { z } from "zod"
import type { GitCredentials, Outbound, RequestFrame } from "../../wire/frames/index.ts"
import type { ChildReport } from "./child-reports.ts"
import type { ChatServices } from "./chat-services.ts"

export type SqlValue = string | number | null

/** SQLite within the limits of both hosts: at most 100 values a statement, rows below 2 MB. */
export interface Sql {
  readonly all: <Row>(query: string, ...values: readonly SqlValue[]) => Row[]
  readonly run: (query: string, ...values: readonly SqlValue[]) => void
  /** All or nothing. A nested transaction is part of the outermost one. */
  readonly transaction: <Result>(work: () => Result) => Result
}

/** A connection's id comes from the host and stays the same when the host loses its memory. */
export interface Sockets {
  /** Does nothing when the socket is closed: a client that reconnects gets what it missed by its cursor. */
  readonly send: (connection: string, text: string) => void
  /** To every client that has subscribed. */
  readonly broadcast: (text: string) => void
  readonly subscribe: (connection: string) => void
  readonly close: (connection: string, code: number, reason: string) => void
}

/** For base64 content, which is too big for a row. */
export interface Blobs {
  readonly put: (id: string, mime: string, base64: string) => void
  /** As base64. */
  readonly get: (id: string) => string | undefined
  /** Does nothing when the blob does not exist. */
  readonly remove: (id: string) => void
  /** Every blob of this session. */
  readonly ids: () => readonly string[]
}

/** Files of this session's conversation in object storage. Every call rejects if the storage does not answer as it should. */
export interface ArtifactObjects {
  readonly put: (id: string, mime: string, base64: string) => Promise<void>
  readonly get: (id: string) => Promise<Uint8Array<ArrayBuffer>>
}

export interface Alarm {
  /** There is one alarm: the last call counts, `undefined` cancels it. It fires at least once, possibly late. */
  readonly set: (at: number | undefined) => void
}

export interface ExecutionDecision {
  readonly executionId: string
  readonly isApproved: boolean
  readonly reason?: string | undefined
}

/** What a client needs to decide about an execution that waits: the verb `approve-execution` names it. */
export const workflowApproval = z.object({
  executionId: z.string(),
  stepId: z.string(),
  text: z.string(),
  /** Absent when they are long. */
  items: z.array(z.unknown()).optional(),
})
export type WorkflowApproval = z.output<typeof workflowApproval>

export type DecisionOutcome =
  | { readonly ok: true; readonly status: string }
  | { readonly ok: false; readonly isUnknown: boolean; readonly message: string }

/** What a session asks of its sandbox. Set once, when the session is made. */
export const sandboxWish = z.object({
  repoUrl: z.string().optional(),
  branch: z.string().optional(),
  ref: z.string().optional(),
  model: z.string().optional(),
  /** The session exists for one run of a workflow and ends with it. */
  isForWorkflow: z.boolean().optional(),
})
export type SandboxWish = Readonly<z.output<typeof sandboxWish>>

/** What a control plane needs to know to start and stop the session's sandbox. Levels, not events. */
export const sessionActivity = z.object({
  /** The generation of the runner's token. */
  generation: z.number(),
  connected: z.boolean(),
  /** Running prompts and open orders of workflows, and queued prompts. */
  working: z.number(),
  queued: z.number(),
  /** When the runner last reported that people work in the sandbox, by the clock of the hub. */
  usedAt: z.number().optional(),
  hasEnded: z.boolean(),
  /** The runner was started by another program, which set its token: the control plane starts none. */
  hasOtherRunner: z.boolean(),
  parent: z.string().optional(),
  wish: sandboxWish.optional(),
  /** Since the session exists: ended prompts, those given to a runner again, and replaced agent sessions. */
  counts: z.object({
    done: z.number(),
    failed: z.number(),
    retried: z.number(),
    replaced: z.number(),
  }),
})
export type SessionActivity = Readonly<z.output<typeof sessionActivity>>

export interface Ports {
  readonly sql: Sql
  readonly sockets: Sockets
  readonly blobs: Blobs
  readonly alarm: Alarm
  readonly now: () => number
  readonly newId: () => string
  /** A collision-free hash of a text. */
  readonly digest: (text: string) => string
  /** From 0 to 1: jitter, so that the sessions of a host do not all write at the same moment. */
  readonly random: () => number
  /** A short timer, which may be lost in a crash. Returns its cancellation. */
  readonly later: (ms: number, run: () => void) => () => void
  /** Handles a request of the runner. A repeated `requestId` must not be carried out twice. */
  readonly answer: (frame: RequestFrame) => Promise<Record<string, unknown>>
  /** The runner reports that a workflow run has ended or waits for an approval. A known `reportId` must change nothing. */
  readonly workflowReported: (
    executionId: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
    reportId: string,
  ) => void | Promise<void>
  /** Gives a report of this session to its parent. Resolves when the parent has stored it; it knows duplicates. */
  readonly tellParent: (parent: string, report: ChildReport) => Promise<void>
  /** A client approves or denies a run of this session that waits for it. */
  readonly decideExecution: (decision: ExecutionDecision) => Promise<DecisionOutcome>
  /** The session goes on with a new conversation when its runner has completed it. */
  readonly staysOpen?: () => boolean
  /** The runner has ended the session, or what it was for. */
  readonly ended: () => void
  /** Encrypts the session's config for its row. Throws when the host has no encryption key. */
  readonly seal: (text: string) => string
  /** After a commit that changed what the list of sessions shows. `urgent`: tokens were used or the session has ended. */
  readonly changed: (urgent: boolean) => void
  /** A token of an open connection has expired: closes the connections that may not read the session any more. */
  readonly checkConnections: () => void
  /** What git uses in the sandbox of the session's present owner. Never stored; absent if this host gives none. */
  readonly gitCredentials?: (() => GitCredentials | undefined) | undefined
  /** Chat services outside; absent when none is configured. */
  readonly chats?: ChatServices | undefined
  /** Where files that the agent shows are stored; absent when no object storage is configured. */
  readonly objects?: ArtifactObjects | undefined
  /** After every commit, also without a change. */
  readonly activity?: ((now: SessionActivity) => void) | undefined
  /** Reports to a control plane in another process. Rejects if the report was not stored; it is repeated then. */
  readonly tellFleet?: ((now: SessionActivity) => Promise<void>) | undefined
  /** Logs an event. The fields never hold values out of frames. */
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

export const one = <Row>(rows: readonly Row[]): Row | undefined => rows[0]
