/** Frames about the session, and the runner's responses to frames of the session agent. */
import { z } from "zod"
import { tunnel } from "../operations/tunnels.ts"
import { displayFile, displayLimits, omittedFile } from "./display.ts"
import { reviewData } from "./review.ts"
import { streamed } from "./row.ts"
import {
  changedFile,
  channel,
  diffFile,
  origin,
  providerModels,
  requestId,
  optionalChannel,
} from "./shapes.ts"
import { workflowEnvelope } from "./workflow.ts"

const serviceState = z.enum(["off", "starting", "ready", "failed"])

export const stateRows = [
  streamed(
    "workflow-chat-message",
    "A message that a workflow, or another client of OpenCode, adds to the conversation.",
    {
      ...optionalChannel,
      role: z.enum(["user", "assistant", "system"]),
      content: z.string(),
      parts: z.unknown().optional(),
      opencodeSessionId: z.string().optional(),
    },
  ),
  streamed("screenshot", "An image for the conversation in base64.", {
    ...origin,
    data: z.string(),
    description: z.string(),
    mimeType: z.string().optional(),
    callId: z.string().optional(),
  }),
  streamed(
    "artifacts",
    "The files of `output/display` that are new or changed at the end of a turn, and those that are not shown.",
    {
      ...origin,
      turnId: z.string().optional(),
      files: z.array(displayFile).max(displayLimits.files),
      omitted: z.array(omittedFile).max(displayLimits.files).optional(),
    },
  ),
  streamed(
    "models",
    "The models that the agent can use; `default` is that of prompts that name none.",
    { models: z.array(providerModels), default: z.string().optional() },
  ),
  streamed(
    "services",
    "The services of the sandbox that people open, and the programs that they lack.",
    {
      vscode: serviceState,
      vnc: serviceState,
      terminal: serviceState,
      lacks: z.array(z.string()).optional(),
    },
  ),
  streamed(
    "tunnels",
    "All current tunnels, when they change and when a server behind one starts or stops to listen.",
    { tunnels: z.array(tunnel) },
  ),
  streamed(
    "git-state",
    "State of the checkout, after each turn and when the tree changes; `dirtyCount` counts the files that differ from the last commit, `baseBranch` is what `files-changed` compares with.",
    {
      branch: z.string().optional(),
      baseBranch: z.string().optional(),
      commitCount: z.int().nonnegative().optional(),
      ahead: z.int().nonnegative().optional(),
      behind: z.int().nonnegative().optional(),
      dirtyCount: z.int().nonnegative().optional(),
      lastCommit: z.object({ hash: z.string(), subject: z.string(), at: z.string() }).optional(),
    },
  ),
  streamed(
    "files-changed",
    "The files that differ from the base of the branch, committed or not; without a base, from the last commit.",
    {
      files: z.array(changedFile),
    },
  ),
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
  streamed("channel-session-created", "A channel has a new agent session.", {
    channelKey: z.string(),
    opencodeSessionId: z.string(),
  }),
  streamed("audio-transcript", "Transcript of the audio in a prompt.", {
    messageId: z.string(),
    transcript: z.string(),
  }),
  streamed(
    "sandbox-used",
    "People work in the editor, the screen, a terminal or a tunnel; repeated every half minute while they do.",
    {},
  ),
  streamed(
    "self-terminate",
    "The session is completed; the runner shuts down after this frame.",
    {},
  ),
] as const

export const responseRows = [
  streamed(
    "reverted",
    "Response to `revert`: the removed messages. With `filesKept` their file changes stay, because the workspace is not a git repository.",
    {
      messageIds: z.array(z.string()),
      error: z.string().optional(),
      filesKept: z.boolean().optional(),
      ...optionalChannel,
    },
  ),
  streamed("diff", "Response to `diff`.", {
    requestId,
    data: z.object({ files: z.array(diffFile) }),
    error: z.string().optional(),
  }),
  streamed("review-result", "Response to `review`.", {
    requestId,
    data: reviewData.optional(),
    diffFiles: z.array(diffFile).optional(),
    error: z.string().optional(),
  }),
  streamed("command-result", "Response to `opencode-command`.", {
    requestId,
    command: z.string(),
    result: z.unknown().optional(),
    error: z.string().optional(),
  }),
  streamed("session-reset", "Response to `new-session`.", { ...channel, requestId }),
  streamed("workflow-accepted", "The execution is stored and runs; its result follows.", {
    executionId: z.string(),
  }),
  streamed("workflow-execution-result", "Response to `workflow-execute`.", {
    executionId: z.string(),
    envelope: workflowEnvelope,
  }),
  streamed("opencode-config-applied", "Response to `opencode-config`.", {
    success: z.boolean(),
    restarted: z.boolean(),
    error: z.string().optional(),
    requestId: requestId.optional(),
  }),
] as const
