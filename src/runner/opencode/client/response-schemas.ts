/** Schemas of OpenCode's responses and their conversion to the runner's types. Pure. */
import { z } from "zod"
import {
  messageSchema,
  partSchema,
  permissionSchema,
  questionSchema,
} from "../events/event-schemas.ts"
import type { AgentMessage, AgentPart, AgentQuestion } from "../events/events.ts"
import { WARM_UP_MODEL } from "../config/compose-config.ts"
import type { ProviderModels } from "./types.ts"

export interface AgentExchange {
  readonly message: AgentMessage
  readonly parts: readonly AgentPart[]
}

export interface AgentSession {
  readonly id: string
  readonly title: string
  /** Messages from this one on are reverted. */
  readonly revertedTo?: string
}

export interface FileDiff {
  readonly file: string
  readonly status: "added" | "modified" | "deleted"
  readonly additions: number
  readonly deletions: number
  /** A unified diff; OpenCode before 1.2 returns `before` and `after` instead. */
  readonly patch?: string
  readonly before?: string
  readonly after?: string
}

export interface PendingQuestion {
  readonly requestId: string
  readonly agentSessionId: string
  readonly questions: readonly AgentQuestion[]
}

export interface PendingPermission {
  readonly permissionId: string
  readonly agentSessionId: string
  readonly title: string
  readonly patterns: readonly string[]
}

/** A durable event of `POST /sync/history`; `seq` is contiguous within its agent session. */
export interface DurableEvent {
  readonly id: string
  readonly agentSessionId: string
  readonly seq: number
  readonly type: string
  readonly data: unknown
}

export const exchange = z
  .object({ info: messageSchema, parts: z.array(z.unknown()) })
  .transform(({ info, parts }): AgentExchange => ({
    message: info,
    parts: parts.flatMap((part) => partSchema.safeParse(part).data ?? []),
  }))

/** The snapshots that the parts of each message name: OpenCode restores files from them when it reverts. */
export const messagePatches = z.array(
  z
    .object({
      info: z.object({ id: z.string() }),
      parts: z.array(z.object({ type: z.string(), hash: z.string().optional() })),
    })
    .transform(({ info, parts }) => ({
      messageId: info.id,
      hashes: parts.flatMap(({ type, hash }) =>
        type === "patch" && hash !== undefined ? [hash] : [],
      ),
    })),
)

export const project = z
  .object({ id: z.string(), worktree: z.string(), vcs: z.string().optional() })
  .transform(({ id, worktree, vcs }) => ({ id, worktree, isRepository: vcs === "git" }))

export const session = z
  .object({
    id: z.string(),
    title: z.string().default(""),
    revert: z.object({ messageID: z.string() }).optional(),
  })
  .transform(({ id, title, revert }): AgentSession => ({
    id,
    title,
    ...(revert && { revertedTo: revert.messageID }),
  }))

export const fileDiff = z
  .object({
    file: z.string(),
    status: z.enum(["added", "modified", "deleted"]).optional(),
    additions: z.number().default(0),
    deletions: z.number().default(0),
    patch: z.string().optional(),
    before: z.string().optional(),
    after: z.string().optional(),
  })
  .transform(({ file, status, additions, deletions, patch, before, after }): FileDiff => ({
    file,
    status: status ?? (before === "" ? "added" : after === "" ? "deleted" : "modified"),
    additions,
    deletions,
    ...(patch !== undefined && { patch }),
    ...(before !== undefined && { before }),
    ...(after !== undefined && { after }),
  }))

export const pendingQuestion = questionSchema.transform(
  ({ id, sessionID, questions }): PendingQuestion => ({
    requestId: id,
    agentSessionId: sessionID,
    questions,
  }),
)

export const pendingPermission = permissionSchema.transform(
  ({ id, sessionID, title, permission, patterns }): PendingPermission => ({
    permissionId: id,
    agentSessionId: sessionID,
    title: title ?? permission ?? "permission",
    patterns,
  }),
)

export const durableEvent = z
  .object({
    id: z.string(),
    aggregate_id: z.string(),
    seq: z.number(),
    type: z.string(),
    data: z.unknown(),
  })
  .transform(({ id, aggregate_id, seq, type, data }): DurableEvent => ({
    id,
    agentSessionId: aggregate_id,
    seq,
    type,
    data,
  }))

const MODEL_INPUTS = ["text", "audio", "image", "video", "pdf"] as const

/** Details that another version of OpenCode gives in another form are left out. */
const providerModel = z.object({
  id: z.string(),
  name: z.string().optional(),
  limit: z.object({ context: z.int().positive() }).optional().catch(undefined),
  capabilities: z
    .object({ input: z.record(z.string(), z.boolean()) })
    .optional()
    .catch(undefined),
  cost: z.object({ input: z.number(), output: z.number() }).optional().catch(undefined),
})

const detailsOf = ({ limit, capabilities, cost }: z.output<typeof providerModel>) => ({
  ...(limit && { context: limit.context }),
  ...(capabilities && {
    inputs: MODEL_INPUTS.filter((input) => capabilities.input[input] === true),
  }),
  ...(cost && cost.input + cost.output > 0 && { cost }),
})

/** The response has the providers' keys in plain text: only what describes the models is kept. */
export const providers = z
  .object({
    providers: z.array(z.object({ id: z.string(), models: z.record(z.string(), providerModel) })),
  })
  .transform(({ providers: known }): readonly ProviderModels[] =>
    known
      .filter(({ id }) => id !== WARM_UP_MODEL.providerID)
      .map(({ id, models }) => ({
        provider: id,
        models: Object.values(models).map((model) => ({
          id: model.id,
          name: model.name ?? model.id,
          ...detailsOf(model),
        })),
      })),
  )
