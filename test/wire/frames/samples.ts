/** One sample of every frame, with all optional fields. */
import { operations } from "../../../src/wire/operations/index.ts"
import type { CommandFrame, ReportFrame } from "../../../src/wire/frames/index.ts"
import { sampleOf } from "../operations/samples.ts"

type Sample = Readonly<Record<string, unknown>>

/** A sample for each type, checked against the type's own frame. */
type SampleOfEach<Frame extends { type: string }> = {
  readonly [Type in Frame["type"]]: Omit<Extract<Frame, { type: Type }>, "type" | "seq">
}

const channel = { channelType: "slack", channelId: "C1" }
const origin = { ...channel, messageId: "m1", opencodeSessionId: "ses_1" }
const turn = { ...origin, turnId: "t1" }

const commands: SampleOfEach<CommandFrame> = {
  prompt: {
    ...origin,
    content: "Hello",
    model: "a/b",
    attachments: [{ type: "file", mime: "text/plain", url: "data:,x", filename: "x.txt" }],
    modelPreferences: ["a/b", "c/d"],
    authorId: "u1",
    authorEmail: "ann@example.com",
    authorName: "Ann",
    gitName: "Ann",
    gitEmail: "ann@example.com",
    steer: true,
  },
  answer: { questionId: "q1", answer: true },
  stop: {},
  abort: channel,
  revert: { messageId: "m1" },
  diff: { requestId: "r1" },
  review: { requestId: "r1" },
  "opencode-command": { command: "init", args: "now", requestId: "r1" },
  "new-session": { ...channel, requestId: "r1" },
  init: {},
  "opencode-config": {
    config: {
      tools: { bash: false },
      providerKeys: { anthropic: "key" },
      instructions: ["Be kind"],
      isOrchestrator: true,
      customProviders: [
        {
          providerId: "own",
          displayName: "Our own",
          baseUrl: "https://models.example",
          apiKey: "key",
          models: [
            { id: "m", name: "M", contextLimit: 1000, outputLimit: 100, inputs: ["text", "image"] },
          ],
        },
      ],
      mcpServers: {
        files: { type: "local", command: ["serve-files"], environment: { ROOT: "/srv" } },
        search: { type: "remote", url: "https://mcp.example", headers: { authorization: "key" } },
      },
    },
  },
  "git-credentials": { token: "ghp_sample", userName: "Ann", userEmail: "a@example.com" },
  pong: {},
  "tunnel-delete": { name: "app", actorId: "u1", actorName: "Ann", actorEmail: "a@example.com" },
  "workflow-execute": {
    executionId: "e1",
    model: "a/b",
    modelPreferences: ["a/b"],
    payload: {
      kind: "resume",
      executionId: "e1",
      workflowHash: "sha256:00",
      resumeToken: "token",
      decision: "approve",
      payload: { workflow: { steps: [] }, trigger: null },
    },
  },
  welcome: { protocol: 2, lastSeq: 0 },
  ack: { seq: 12 },
  "permission-reply": { permissionId: "p1", reply: "once" },
}

const reports: SampleOfEach<ReportFrame> = {
  hello: {
    protocol: 2,
    runner: { name: "sandpiper", version: "0.1.0" },
    sessionId: "s1",
    epoch: "e1",
    nextSeq: 1,
    active: [{ messageId: "m1", channelKey: "slack:C1", turnId: "t1", opencodeSessionId: "ses_1" }],
  },
  ping: {},
  "message.create": turn,
  "message.part.text-delta": { ...turn, partId: "p1", delta: "Hi" },
  "message.part.reasoning-delta": { ...turn, partId: "p1", delta: "Hm" },
  "message.part.tool-output": { ...turn, callId: "c1", offset: 0, delta: "one\n" },
  "message.part.tool-update": {
    ...turn,
    callId: "c1",
    toolName: "bash",
    status: "error",
    args: { command: "ls" },
    result: null,
    error: "no such folder",
    childSessionId: "ses_2",
  },
  "message.finalize": { ...turn, reason: "error", finalText: "Hi", error: "cut off" },
  todo: { ...turn, items: [{ content: "Test", status: "pending", priority: "high" }] },
  usage: {
    ...turn,
    model: "a/b",
    input: 1,
    output: 2,
    reasoning: 3,
    cacheRead: 4,
    cacheWrite: 5,
    cost: 0.01,
  },
  retry: { ...turn, attempt: 1, next: 1_767_225_600_000, message: "overloaded" },
  compacted: turn,
  permission: { ...turn, permissionId: "p1", title: "Run ls", patterns: ["ls *"] },
  question: { ...origin, questionId: "q1", text: "Which?", options: ["a", "b"] },
  agentStatus: { ...origin, status: "tool_calling", detail: "bash" },
  "model-switched": { ...origin, fromModel: "a/b", toModel: "c/d", reason: "overloaded" },
  error: { ...origin, error: "no model" },
  complete: origin,
  aborted: origin,
  "workflow-chat-message": {
    ...channel,
    role: "system",
    content: "Step 1",
    parts: [{ type: "text" }],
    opencodeSessionId: "ses_1",
  },
  screenshot: { data: "AA==", description: "The page", mimeType: "image/png" },
  artifacts: {
    ...turn,
    files: [{ path: "chart.png", sha256: "ab".repeat(32), data: "AA==" }],
    omitted: [{ path: "dump.bin", reason: "it is too large" }],
  },
  models: {
    models: [
      {
        provider: "a",
        models: [
          {
            id: "b",
            name: "B",
            context: 200_000,
            inputs: ["text", "image"],
            cost: { input: 3, output: 15 },
          },
        ],
      },
    ],
    default: "a/b",
  },
  services: { vscode: "ready", vnc: "off", terminal: "ready", lacks: ["x11vnc"] },
  tunnels: { tunnels: [{ name: "app", port: 3000, protocol: "http", path: "/t/app" }] },
  "git-state": { branch: "fix", baseBranch: "main", commitCount: 2 },
  "files-changed": { files: [{ path: "a.ts", status: "modified", additions: 1, deletions: 0 }] },
  "pr-created": { number: 7, title: "Fix", url: "https://git.example/7", status: "open" },
  "child-session": { childSessionId: "s2", title: "Child" },
  title: { title: "A title" },
  "channel-session-created": { channelKey: "slack:C1", opencodeSessionId: "ses_1" },
  "audio-transcript": { messageId: "m1", transcript: "Hello" },
  "sandbox-used": {},
  "self-terminate": {},
  reverted: { messageIds: ["m1", "m2"] },
  diff: { requestId: "r1", data: { files: [{ path: "a.ts", status: "added", diff: "+a" }] } },
  "review-result": {
    requestId: "r1",
    data: {
      files: [
        {
          path: "a.ts",
          summary: "New",
          reviewOrder: 1,
          linesAdded: 1,
          linesDeleted: 0,
          findings: [
            {
              id: "f1",
              file: "a.ts",
              lineStart: 1,
              lineEnd: 2,
              severity: "nitpick",
              category: "style",
              title: "Name",
              description: "Too short",
              suggestedFix: "count",
            },
          ],
        },
      ],
      overallSummary: "Good",
      stats: { critical: 0, warning: 0, suggestion: 0, nitpick: 1 },
    },
    diffFiles: [{ path: "a.ts", status: "deleted" }],
    error: "only half of it",
  },
  "command-result": { requestId: "r1", command: "init", result: { done: true }, error: "late" },
  "session-reset": { ...channel, requestId: "r1" },
  "workflow-accepted": { executionId: "e1" },
  "workflow-execution-result": {
    executionId: "e1",
    envelope: {
      ok: true,
      status: "needs_approval",
      executionId: "e1",
      output: { a: 1 },
      steps: [
        {
          stepId: "s1",
          status: "completed",
          attempt: 1,
          startedAt: "2026-01-01T00:00:00Z",
          completedAt: "2026-01-01T00:00:01Z",
          input: null,
          output: "ok",
          error: "none",
        },
      ],
      requiresApproval: { stepId: "s2", prompt: "Go on?", items: ["a"], resumeToken: "token" },
      error: "none",
    },
  },
  "opencode-config-applied": { success: false, restarted: true, error: "bad key" },
}

/** The fields that an operation's sample puts on the wire, and those it is answered with. */
const sessionRequests = operations.flatMap(({ name, input, served }) => {
  if (served.by !== "session") return []
  const sample = sampleOf(name)
  const fields = served.toFields(input.parse(sample.input))
  return [{ type: served.request.type, fields, result: sample.result ?? {} }]
})

/** The requests that the runner makes for itself. */
const ownRequests = [
  {
    type: "git-token",
    fields: { origin: "https://github.com", repositories: ["birds/heron"] },
    result: { token: "ghs_1", expiresAt: 1_700_000_000_000 },
  },
]
const requests = [...sessionRequests, ...ownRequests]

const seq = { seq: 3 }
const unplaced = ["hello", "ping"]

export const inboundSamples: readonly Sample[] = [
  ...Object.entries(commands).map(([type, fields]) => ({ type, ...fields })),
  ...requests.map(({ type, result }) => ({
    type: `${type}-result`,
    requestId: "r1",
    ...result,
  })),
]

export const outboundSamples: readonly Sample[] = [
  ...Object.entries(reports).map(([type, fields]) => ({
    type,
    ...fields,
    ...(unplaced.includes(type) ? {} : seq),
  })),
  ...requests.map(({ type, fields }) => ({ type, requestId: "r1", ...seq, ...fields })),
]
