/** What the runner tells of the session as a whole, and its answers to the session agent. */
import { z } from "zod"
import { tunnel } from "../operations/tunnels.ts"
import { reviewData } from "./review.ts"
import { streamed } from "./row.ts"
import {
  changedFile,
  channel,
  diffFile,
  origin,
  providerModels,
  requestId,
  someChannel,
} from "./shapes.ts"
import { workflowEnvelope } from "./workflow.ts"

export const stateRows = [
  streamed("workflow-chat-message", "A line that a workflow adds to the conversation.", {
    ...someChannel,
    role: z.enum(["user", "assistant", "system"]),
    content: z.string(),
    parts: z.unknown().optional(),
    opencodeSessionId: z.string().optional(),
  }),
  streamed("screenshot", "An image for the conversation, in base64.", {
    ...origin,
    data: z.string(),
    description: z.string(),
    mimeType: z.string().optional(),
  }),
  streamed("models", "The models that the agent can use.", { models: z.array(providerModels) }),
  streamed("tunnels", "All the tunnels there are.", { tunnels: z.array(tunnel) }),
  streamed("git-state", "Where the checkout stands.", {
    branch: z.string().optional(),
    baseBranch: z.string().optional(),
    commitCount: z.int().nonnegative().optional(),
  }),
  streamed("files-changed", "The files that differ from the base.", {
    files: z.array(changedFile),
  }),
  streamed("pr-created", "A pull request was opened.", {
    number: z.int(),
    title: z.string(),
    url: z.string(),
    status: z.string(),
  }),
  streamed("child-session", "A child session was started.", {
    childSessionId: z.string(),
    title: z.string().optional(),
  }),
  streamed("title", "The session has a new title.", { title: z.string() }),
  streamed("channel-session-created", "A channel has its agent session.", {
    channelKey: z.string(),
    opencodeSessionId: z.string(),
  }),
  streamed("audio-transcript", "What was said in a prompt's audio.", {
    messageId: z.string(),
    transcript: z.string(),
  }),
  streamed("self-terminate", "The session's work is done; the runner shuts down after this.", {}),
] as const

export const answerRows = [
  streamed("reverted", "Answers `revert`: the messages that are gone.", {
    messageIds: z.array(z.string()),
    error: z.string().optional(),
  }),
  streamed("diff", "Answers `diff`.", {
    requestId,
    data: z.object({ files: z.array(diffFile) }),
    error: z.string().optional(),
  }),
  streamed("review-result", "Answers `review`.", {
    requestId,
    data: reviewData.optional(),
    diffFiles: z.array(diffFile).optional(),
    error: z.string().optional(),
  }),
  streamed("command-result", "Answers `opencode-command`.", {
    requestId,
    command: z.string(),
    result: z.unknown().optional(),
    error: z.string().optional(),
  }),
  streamed("session-reset", "Answers `new-session`.", { ...channel, requestId }),
  streamed("workflow-execution-result", "Answers `workflow-execute`.", {
    executionId: z.string(),
    envelope: workflowEnvelope,
  }),
  streamed("opencode-config-applied", "Answers `opencode-config`.", {
    success: z.boolean(),
    restarted: z.boolean(),
    error: z.string().optional(),
  }),
] as const
