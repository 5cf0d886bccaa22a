/** Schemas that several frames share. */
import { z } from "zod"

/** The hub keeps results under it, so it is bounded and has no character with a meaning in a path. */
export const requestId = z
  .string()
  .regex(/^[\w-]{1,64}$/, "must be 1 to 64 letters, digits, _ or -")

/** Position of a frame in the reliable stream of its epoch. */
export const seq = z.int().nonnegative()

const count = z.int().nonnegative()

export const channel = { channelType: z.string(), channelId: z.string() }

export const optionalChannel = {
  channelType: z.string().optional(),
  channelId: z.string().optional(),
}

/** The prompt, channel and agent session that a frame belongs to. */
export const origin = {
  ...optionalChannel,
  messageId: z.string().optional(),
  opencodeSessionId: z.string().optional(),
}

/** The author of a prompt, with the name for chats and the name for commits. */
export const author = {
  authorId: z.string().optional(),
  authorEmail: z.string().optional(),
  authorName: z.string().optional(),
  gitName: z.string().optional(),
  gitEmail: z.string().optional(),
}

/** Only http, https and data URLs: a `file:` URL would let a peer read the sandbox's disk. */
export const attachment = z.object({
  type: z.literal("file"),
  mime: z.string(),
  url: z.string().regex(/^(?:https?:\/\/|data:)/i, "must be an http, https or data URL"),
  filename: z.string().optional(),
})

export const modelId = z
  .string()
  .max(200)
  .regex(/^[^/\s]+\/\S+$/, "must be provider/model")

export const modelPreferences = z.array(z.string())

const modelInput = z.enum(["text", "audio", "image", "video", "pdf"])

const providerModel = z.object({
  id: z.string(),
  name: z.string().optional(),
  contextLimit: count.optional(),
  outputLimit: count.optional(),
  inputs: z.array(modelInput).optional(),
})

const customProvider = z.object({
  providerId: z.string(),
  displayName: z.string(),
  baseUrl: z.string(),
  apiKey: z.string().optional(),
  models: z.array(providerModel),
})

const localMcpServer = z.object({
  type: z.literal("local"),
  command: z.array(z.string()),
  environment: z.record(z.string(), z.string()).optional(),
})

const remoteMcpServer = z.object({
  type: z.literal("remote"),
  url: z.string(),
  headers: z.record(z.string(), z.string()).optional(),
})

const mcpServer = z.discriminatedUnion("type", [localMcpServer, remoteMcpServer])

/** Passes through git's credential protocol, which has one value a line. */
const gitPassword = z
  .string()
  .max(4096)
  .regex(/^[\x21-\x7e]+$/, "must not be empty or have spaces or line breaks")

/** What git uses in a session's sandbox. Complete: an absent field means that there is none. */
export const gitCredentials = z.object({
  /** The password for the host of the first repository, for github.com if there is no repository. */
  token: gitPassword.optional(),
  /** The author of commits. */
  userName: z.string().min(1).max(200).optional(),
  userEmail: z.string().min(1).max(200).optional(),
})
export type GitCredentials = Readonly<z.output<typeof gitCredentials>>

/** A partial config: absent fields keep their value. */
export const agentConfig = z.object({
  tools: z.record(z.string(), z.boolean()).optional(),
  providerKeys: z.record(z.string(), z.string()).optional(),
  instructions: z.array(z.string()).optional(),
  isOrchestrator: z.boolean().optional(),
  customProviders: z.array(customProvider).optional(),
  mcpServers: z.record(z.string(), mcpServer).optional(),
  /** `provider/model`, in order: what a prompt goes on with when its model fails before a tool has run. */
  modelFallbacks: z.array(modelId).max(10).optional(),
})

/** The same from a client: a key that is not known is refused, because it would have no effect. */
export const clientConfig = agentConfig.strict().extend({
  customProviders: z
    .array(customProvider.strict().extend({ models: z.array(providerModel.strict()) }))
    .optional(),
  mcpServers: z
    .record(
      z.string(),
      z.discriminatedUnion("type", [localMcpServer.strict(), remoteMcpServer.strict()]),
    )
    .optional(),
})

/** The runner's rule for provider ids. */
const providerId = z.string().regex(/^[A-Za-z0-9][\w.-]{0,63}$/, "is not a valid provider id")

const secretText = z
  .string()
  .regex(/^[\x21-\x7e]+$/, "must not be empty or have spaces or line breaks")

/**
 * A client's change of single entries of the config, in the way of a JSON Merge Patch (RFC 7396): entries and fields that
 * are absent stay, `null` removes one. Keys can be written and not read, so a client cannot send the whole list again.
 */
export const configPatch = z.strictObject({
  tools: z.record(z.string(), z.boolean().nullable()).optional(),
  providerKeys: z.record(providerId, secretText.nullable()).optional(),
  customProviders: z
    .record(
      providerId,
      z
        .strictObject({
          displayName: z.string().min(1).optional(),
          baseUrl: z.string().min(1).optional(),
          apiKey: secretText.nullable().optional(),
          models: z.array(providerModel.strict()).optional(),
        })
        .nullable(),
    )
    .optional(),
})

export const providerModels = z.object({
  provider: z.string(),
  models: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      /** Tokens of the context. */
      context: count.optional(),
      inputs: z.array(modelInput).optional(),
      /** Dollars for a million tokens. */
      cost: z.object({ input: z.number(), output: z.number() }).optional(),
    }),
  ),
})

export const changedFile = z.object({
  path: z.string(),
  status: z.string(),
  additions: count.optional(),
  deletions: count.optional(),
})

export const diffFile = z.object({
  path: z.string(),
  status: z.enum(["added", "modified", "deleted"]),
  diff: z.string().optional(),
})

export const todoItem = z.object({
  content: z.string(),
  status: z.string(),
  priority: z.string().optional(),
})

/** A turn that runs when the link connects. */
export const activeTurn = z.object({
  messageId: z.string(),
  channelKey: z.string(),
  turnId: z.string().optional(),
  opencodeSessionId: z.string().optional(),
})
