/** A valid input for every operation, with a result of the session agent. */
import type { OperationName } from "../../../src/wire/operations/index.ts"

interface Sample {
  readonly input: Readonly<Record<string, unknown>>
  /** The result frame's fields, for an operation that the session agent answers. */
  readonly result?: Readonly<Record<string, unknown>>
  /** The reply to the caller; default: the result. */
  readonly reply?: unknown
}

const thing = { id: "x1", name: "Thing" }
const pull = { number: 7, url: "https://git.example/pull/7", title: "Fix it", state: "open" }

/** The result and reply of an action operation. */
const data = (value: unknown) => ({ result: { data: value }, reply: value })

export const samples: Readonly<Record<OperationName, Sample>> = {
  "spawn-session": {
    input: { task: "Write tests", workspace: "tests", sourcePrNumber: 3, model: "a/b" },
    result: { childSessionId: "s2" },
  },
  "terminate-session": { input: { childSessionId: "s2" }, result: { success: true } },
  "complete-session": { input: {} },
  "send-message": {
    input: { sessionId: "s2", content: "Hello", interrupt: true },
    result: { success: true },
    reply: { ok: true },
  },
  "read-messages": {
    input: { sessionId: "s2", limit: "20", after: "m1" },
    result: { messages: [{ role: "user", content: "Hi", createdAt: "2026-01-01T00:00:00Z" }] },
  },
  "forward-messages": {
    input: { sessionId: "s2", limit: 20, after: "m1" },
    result: { count: 2, sourceSessionId: "s2" },
  },
  "list-sessions": { input: {}, result: { children: [thing] } },
  "get-session-status": { input: { sessionId: "s2" }, result: { sessionStatus: thing } },

  "create-pull-request": {
    input: { branch: "fix", title: "Fix it", body: "", base: "main" },
    result: pull,
  },
  "update-pull-request": {
    input: { pr_number: 7, title: "Fix all", body: "", state: "closed", labels: ["bug"] },
    result: pull,
  },
  "list-pull-requests": {
    input: { owner: "o", repo: "r", state: "all", limit: "100" },
    result: { pulls: [thing] },
  },
  "inspect-pull-request": {
    input: { pr_number: "7", owner: "o", repo: "r", files_limit: "300", comments_limit: "1" },
    ...data(thing),
  },
  "list-repos": { input: { source: "github" }, result: { repos: [thing] } },
  "read-repo-file": {
    input: { owner: "o", repo: "r", path: "README.md", ref: "main" },
    result: { content: "# R", encoding: "utf-8", truncated: false, path: "README.md", ref: "main" },
  },
  "report-git-state": { input: { branch: "fix", base_branch: "main", commit_count: 0 } },

  "memory-read": {
    input: { category: "general", query: "tests", limit: "5" },
    result: { memories: [thing] },
  },
  "memory-write": {
    input: { content: "Tests are in test/", category: "general" },
    result: { memory: thing, success: true },
  },
  "memory-delete": { input: { id: "m1" }, result: { success: true } },

  "list-workflows": { input: {}, result: { workflows: [thing] } },
  "sync-workflow": {
    input: { slug: "daily", name: "Daily", description: "", version: "1", data: { steps: [] } },
    result: { success: true, workflow: thing },
  },
  "run-workflow": {
    input: { workflowId: "w1", variables: { x: 1 }, repoUrl: "https://git.example/r" },
    result: { execution: thing },
  },
  "list-workflow-executions": {
    input: { workflowId: "w1", limit: "200" },
    result: { executions: [thing] },
  },
  "get-workflow": { input: { id: "w1" }, ...data({ workflow: thing }) },
  "update-workflow": {
    input: { id: "w1", enabled: false, tags: ["a"], data: { steps: [] } },
    ...data({ workflow: thing }),
  },
  "delete-workflow": { input: { id: "w1" }, ...data({ success: true }) },
  "list-workflow-history": {
    input: { id: "w1", limit: "200", offset: "0" },
    ...data({ history: [thing] }),
  },
  "rollback-workflow": {
    input: { id: "w1", targetWorkflowHash: "sha256:00", version: "2", notes: "" },
    ...data({ workflow: thing }),
  },
  "list-workflow-proposals": {
    input: { id: "w1", status: "open", limit: "10", offset: "10" },
    ...data({ proposals: [thing] }),
  },
  "create-workflow-proposal": {
    input: { id: "w1", baseWorkflowHash: "sha256:00", proposal: { steps: [] }, diffText: "" },
    ...data({ proposal: thing }),
  },
  "review-workflow-proposal": {
    input: { id: "w1", pid: "p1", approve: true, notes: "Good" },
    ...data({ success: true }),
  },
  "apply-workflow-proposal": {
    input: { id: "w1", pid: "p1", reviewNotes: "Good", version: "3" },
    ...data({ success: true, workflow: thing }),
  },
  "list-triggers": {
    input: { workflowId: "w1", type: "schedule", enabled: "true" },
    ...data({ triggers: [thing] }),
  },
  "create-trigger": {
    input: { workflowId: null, name: "Nightly", config: { type: "schedule" }, enabled: true },
    ...data({ trigger: thing, success: true }),
  },
  "update-trigger": {
    input: { id: "t1", workflowId: null },
    ...data({ trigger: thing, success: true }),
  },
  "run-trigger": { input: { id: "t1", variables: {}, branch: "main" }, ...data(thing) },
  "delete-trigger": { input: { id: "t1" }, ...data({ success: true }) },
  "get-execution": { input: { id: "e1" }, ...data({ execution: thing }) },
  "get-execution-steps": { input: { id: "e1" }, ...data({ steps: [thing] }) },
  "cancel-execution": { input: { id: "e1", reason: "" }, ...data({ success: true }) },

  "mailbox-send": {
    input: { to_handle: "ann", content: "Done", message_type: "note", reply_to_id: "n0" },
    result: { messageId: "n1" },
    reply: { notificationId: "n1", messageId: "n1" },
  },
  "mailbox-check": {
    input: { limit: "10", after: "n0" },
    result: { messages: [thing] },
    reply: { notifications: [thing] },
  },
  "task-create": {
    input: { title: "Test", session_id: "s2", parent_task_id: "k0", blocked_by: ["k1"] },
    result: { task: thing },
  },
  "task-list": { input: { status: "open", limit: "10" }, result: { tasks: [thing] } },
  "task-update": {
    input: { id: "k1", status: "done", result: "", session_id: "s2" },
    result: { task: thing },
  },
  "my-tasks": { input: { status: "open" }, result: { tasks: [thing] } },
  "list-personas": { input: {}, result: { personas: [thing] } },
  "list-channels": { input: {}, result: { channels: [thing] } },
  "channel-reply": {
    input: {
      channelType: "slack",
      channelId: "C1",
      imageBase64: "AA==",
      imageMimeType: "image/png",
    },
    result: { success: true },
  },

  "send-image": { input: { data: "AA==", mimeType: "image/png" } },
  "list-tunnels": { input: {} },
  "register-tunnel": { input: { name: "my_app-1", port: 65_535, protocol: "auto" } },
  "unregister-tunnel": { input: { name: "my_app-1" } },
  "secret-list": { input: { vault_id: "v1" } },
  "secret-list-by-post": { input: {} },
  "secret-inject": { input: { templatePath: ".env.tpl", outputPath: ".env" } },
  "secret-run": {
    input: { command: "make", env: { API_KEY: "op://v/i/f" }, cwd: ".", timeout: 1000 },
  },
  "list-services": { input: {} },
  "start-service": { input: { name: "web", command: "make serve", cwd: "app", port: 3000 } },
  "restart-service": { input: { name: "web" } },
  "stop-service": { input: { name: "web" } },
  "expose-port": { input: { port: 3000 } },
  "bootstrap-website": { input: { directory: "site", template: "static", waitSeconds: 5 } },
  "restart-dev-server": { input: {} },
  "apply-env-files": { input: { files: [{ path: ".env", variables: { KEY: "op://v/i/f" } }] } },
  "scrub-env-files": { input: {} },
  "save-service-commands": { input: { services: [{ name: "web", command: "make serve" }] } },
  "save-env-files": { input: { files: [{ path: ".env", variables: { MODE: "test" } }] } },
  "secret-fill": { input: { selector: "#password", secret_ref: "op://v/i/f" } },
  "sign-workspace-urls": {
    input: { manifest: "put", get: ["ab".repeat(32)] },
    result: {
      manifest: "https://s3.example/m",
      get: ["https://s3.example/f"],
      put: [],
      remove: [],
    },
  },
  "save-workspace": { input: {} },
  "restore-workspace": { input: {} },
}

/** By a name that is only known at run time. */
export const sampleOf = (name: string): Sample => {
  const sample = new Map(Object.entries(samples)).get(name)
  if (sample === undefined) throw new Error(`${name} has no sample`)
  return sample
}
