/** Child sessions (start, list, status, end) and the completion of this session. */
import { z } from "zod"
import { frameOperation, unchanged, sessionOperation, wireRequest } from "./define.ts"
import { entity, noInput, success, text, wholeNumber } from "./fields.ts"
import { renderList, renderValue } from "./render.ts"

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
    persona: z.string().optional(),
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
    doc: "Start a child session for a task.",
    tools: [
      {
        name: "spawn_session",
        description:
          "Start a child session: another agent in its own sandbox. It sees only `task`: put all context there. It reports back when it is done.",
        render: ({ childSessionId }) =>
          `Session ${childSessionId} started. Check it with get_session_status, or end your turn with wait_for_event.`,
      },
    ],
    input: z.object({
      task: text("Complete task description"),
      workspace: text("Workspace name"),
      repoUrl: text("Repository to clone").optional(),
      branch: text("Branch").optional(),
      ref: text("Commit or tag").optional(),
      title: text("Session title; default: workspace").optional(),
      sourceType: text("Origin: branch, pull request or issue").optional(),
      sourcePrNumber: wholeNumber("Pull request of the task", { min: 1 }).optional(),
      sourceIssueNumber: wholeNumber("Issue of the task", { min: 1 }).optional(),
      sourceRepoFullName: text("owner/name of its repository").optional(),
      model: text("provider/model for the child").optional(),
      persona: text("Its persona: a name of list_personas").optional(),
    }),
    output: spawnChild.result,
    request: spawnChild,
    toFields: (input) => ({ ...input, title: input.title ?? input.workspace }),
    toReply: unchanged,
    announce: {
      frame: "child-session",
      toFields: ({ childSessionId }) => ({ childSessionId }),
    },
  }),
  sessionOperation({
    name: "terminate-session",
    method: "POST",
    path: "/api/terminate-child",
    doc: "End a child session and its sandbox.",
    tools: [
      {
        name: "terminate_session",
        description: "End a child session and its sandbox. Unpushed work is lost.",
        render: () => "Session ended.",
      },
    ],
    input: z.object({ childSessionId: text("Child session to end") }),
    output: success,
    request: terminateChild,
    toFields: unchanged,
    toReply: unchanged,
  }),
  frameOperation({
    name: "complete-session",
    method: "POST",
    path: "/api/complete-session",
    doc: "Complete this session and shut down its sandbox.",
    tools: [
      {
        name: "complete_session",
        description:
          "Complete this session and shut down its sandbox. Push your work and report the result first: nothing runs afterwards.",
        render: () => "Session completed; the sandbox shuts down. End your turn.",
      },
    ],
    input: noInput,
    output: success,
    frame: "self-terminate",
    toFields: () => ({}),
    reply: { success: true },
  }),
  sessionOperation({
    name: "list-sessions",
    method: "GET",
    path: "/api/child-sessions",
    doc: "List the child sessions of this session.",
    tools: [
      {
        name: "list_sessions",
        description: "List the child sessions of this session with their status.",
        render: ({ children }) => renderList(children, "child session", "child sessions"),
      },
    ],
    input: noInput,
    output: listChildSessions.result,
    request: listChildSessions,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "get-session-status",
    method: "GET",
    path: "/api/session-status",
    doc: "Read the status of another session.",
    tools: [
      {
        name: "get_session_status",
        description: "Read the status of another session.",
        render: ({ sessionStatus }) => renderValue(sessionStatus),
      },
    ],
    input: z.object({ sessionId: text("Session id") }),
    output: getSessionStatus.result,
    request: getSessionStatus,
    toFields: ({ sessionId }) => ({ targetSessionId: sessionId }),
    toReply: unchanged,
  }),
] as const
