/** Starting, watching and ending sessions: this one and its children. */
import { z } from "zod"
import { frameOperation, same, sessionOperation, wireRequest } from "./define.ts"
import { entity, nothing, success, text, wholeNumber } from "./fields.ts"
import { listed, shown } from "./render.ts"

const spawnChild = wireRequest(
  "spawn-child",
  60_000,
  {
    task: z.string(),
    workspace: z.string(),
    repoUrl: z.string().optional(),
    branch: z.string().optional(),
    ref: z.string().optional(),
    title: z.string().optional(),
    sourceType: z.string().optional(),
    sourcePrNumber: z.int().optional(),
    sourceIssueNumber: z.int().optional(),
    sourceRepoFullName: z.string().optional(),
    model: z.string().optional(),
  },
  { childSessionId: z.string() },
)

const terminateChild = wireRequest(
  "terminate-child",
  30_000,
  { childSessionId: z.string() },
  { success: z.boolean() },
)

const listChildSessions = wireRequest(
  "list-child-sessions",
  15_000,
  {},
  { children: z.array(entity) },
)

const getSessionStatus = wireRequest(
  "get-session-status",
  15_000,
  { targetSessionId: z.string() },
  { sessionStatus: z.unknown() },
)

export const requests = [spawnChild, terminateChild, listChildSessions, getSessionStatus] as const

export const operations = [
  sessionOperation({
    name: "spawn-session",
    method: "POST",
    path: "/api/spawn-child",
    doc: "Start a child session on a task of its own.",
    tools: [
      {
        name: "spawn_session",
        description:
          "Start a child session: another agent with a sandbox of its own that works on one task beside you. Give it everything it needs to know in `task`, since it sees nothing of this conversation. Returns its id; it reports back when it is done.",
        render: ({ childSessionId }) =>
          `Session ${childSessionId} is started. Follow it with get_session_status, or end your turn with wait_for_event.`,
      },
    ],
    input: z.object({
      task: text("What the child is to do"),
      workspace: text("Name of the child's workspace"),
      repoUrl: text("Repository to clone").optional(),
      branch: text("Branch to check out or create").optional(),
      ref: text("Commit or tag to start from").optional(),
      title: text("Title of the session; the workspace's name when absent").optional(),
      sourceType: text("What the task came from: a branch, a pull request, an issue").optional(),
      sourcePrNumber: wholeNumber("Pull request the task came from", { min: 1 }).optional(),
      sourceIssueNumber: wholeNumber("Issue the task came from", { min: 1 }).optional(),
      sourceRepoFullName: text("owner/name of the repository the task came from").optional(),
      model: text("provider/model the child uses").optional(),
    }),
    output: spawnChild.result,
    request: spawnChild,
    toFields: (input) => ({ ...input, title: input.title ?? input.workspace }),
    toReply: same,
  }),
  sessionOperation({
    name: "terminate-session",
    method: "POST",
    path: "/api/terminate-child",
    doc: "End a child session and its sandbox.",
    tools: [
      {
        name: "terminate_session",
        description: "End a child session and its sandbox. Work that it has not pushed is lost.",
        render: () => "The session is ended.",
      },
    ],
    input: z.object({ childSessionId: text("The child to end") }),
    output: success,
    request: terminateChild,
    toFields: same,
    toReply: same,
  }),
  frameOperation({
    name: "complete-session",
    method: "POST",
    path: "/api/complete-session",
    doc: "Say that this session's work is done and shut its sandbox down.",
    tools: [
      {
        name: "complete_session",
        description:
          "Say that this session's work is done and shut its sandbox down. Push your work and write your last words first: nothing runs after this.",
        render: () => "The session is completed and its sandbox shuts down. End your turn.",
      },
    ],
    input: nothing,
    output: success,
    frame: "self-terminate",
    toFields: () => ({}),
    reply: { success: true },
  }),
  sessionOperation({
    name: "list-sessions",
    method: "GET",
    path: "/api/child-sessions",
    doc: "List this session's children.",
    tools: [
      {
        name: "list_sessions",
        description: "List the child sessions of this session with their status.",
        render: ({ children }) => listed(children, "child session", "child sessions"),
      },
    ],
    input: nothing,
    output: listChildSessions.result,
    request: listChildSessions,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "get-session-status",
    method: "GET",
    path: "/api/session-status",
    doc: "Say how another session is doing.",
    tools: [
      {
        name: "get_session_status",
        description: "Ask how another session is doing.",
        render: ({ sessionStatus }) => shown(sessionStatus),
      },
    ],
    input: z.object({ sessionId: text("The session asked about") }),
    output: getSessionStatus.result,
    request: getSessionStatus,
    toFields: ({ sessionId }) => ({ targetSessionId: sessionId }),
    toReply: same,
  }),
] as const
