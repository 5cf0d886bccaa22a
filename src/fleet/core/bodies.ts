/** The bodies of the fleet's HTTP API. */
import { z } from "zod"

const id = z
  .string()
  .regex(/^[A-Za-z0-9._:-]{1,128}$/, "expected 1 to 128 letters, digits or . _ : -")
/** A name that the caller has given to something. PostgreSQL does not take every control character. */
const name = (longest: number) =>
  z
    .string()
    .min(1)
    .max(longest)
    .regex(/^\P{Cc}*$/u, "must not contain control characters")
const message = z.string().min(1).max(1_000_000)
const messageId = name(200)
const variables = z.record(z.string(), z.string())

/** Below the time that a call to a gateway may take. */
const waitSeconds = z.number().int().min(0).max(110).default(60)

export const bodies = {
  "prepare-invoke": z.object({
    expertIdentifier: z.string().nullish(),
    chatSessionId: name(200),
    /** Accepted for callers that have projects. There are none here: it changes nothing and is not stored. */
    projectId: z.string().max(200).nullish(),
  }),
  "agent-invoke": z
    .object({
      sandbox_session_id: id.nullish(),
      /** Accepted for callers that keep them, as `sandbox_url`: the session decides which sandbox it has. */
      provider_sandbox_id: z.string().nullish(),
      sandbox_provider: z.string().nullish(),
      sandbox_url: z.string().nullish(),
      sandbox_mode: z.enum(["cloud", "local", "none"]),
      message,
      message_id: messageId.optional(),
    })
    .refine(
      ({ sandbox_mode, sandbox_session_id }) => sandbox_mode !== "cloud" || sandbox_session_id,
      { path: ["sandbox_session_id"], message: "is required for the mode cloud" },
    ),
  "agent-resume": z.object({
    sandbox_session_id: id,
    provider_sandbox_id: z.string().nullish(),
    sandbox_provider: z.string().nullish(),
    message: message.optional(),
    message_id: messageId.optional(),
  }),
  "thread-prompt": z.object({ message, messageId: messageId.optional() }),
  "create-session": z.object({
    sessionId: id,
    userId: name(200),
    /** Accepted for callers that name workspaces: the volume is named by the session. */
    workspace: z.string().max(200).optional(),
    imageType: z.literal("base").optional(),
    doWsUrl: z.url({ protocol: /^wss?$/ }),
    runnerToken: z.string().min(16).max(500),
    jwtSecret: z.string().min(16).max(500),
    idleTimeoutSeconds: z.number().int().min(60).max(86_400).optional(),
    envVars: variables.default({}),
    personaFiles: z.array(z.unknown()).optional(),
    /** The session agent sends them to its runner in `opencode-config`. They have keys: they are not stored here. */
    customProviders: z.array(z.unknown()).optional(),
  }),
  "bootstrap-website": z.strictObject({
    template: z.string().max(100).optional(),
    directory: z.string().max(1000).optional(),
    waitSeconds,
  }),
  "restart-dev-server": z.strictObject({ waitSeconds }),
  sandboxId: z.object({ sandboxId: name(300) }),
  "delete-workspace": z.object({ sessionId: id }),
} as const

export const restoreBody = bodies["create-session"].extend({
  snapshotImageId: name(300),
})
