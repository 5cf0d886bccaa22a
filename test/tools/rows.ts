/** One row per tool: a valid call with its result, and an invalid call with its error. */

export interface Row {
  readonly good: Readonly<Record<string, unknown>>
  /** The frame that the session agent receives; absent for a tool that sends none. */
  readonly frame?: { readonly type: string } & Readonly<Record<string, unknown>>
  /** Text in the result that the model reads. */
  readonly reads: string
  readonly bad: Readonly<Record<string, unknown>>
  /** Text in the error of the invalid call. */
  readonly refusal: string
}

const THING = '{"id":"x1","name":"Thing"}'
const nothing = { bad: { reason: 42 }, refusal: "reason must be text" }
const action = (type: string, name: string, payload: Readonly<Record<string, unknown>>) => ({
  type,
  action: name,
  payload,
})

const sessions = {
  spawn_session: {
    good: { task: "Write tests", workspace: "tests", sourcePrNumber: 3 },
    frame: {
      type: "spawn-child",
      task: "Write tests",
      workspace: "tests",
      title: "tests",
      sourcePrNumber: 3,
    },
    reads: "Session s2 started.",
    bad: { task: "Write tests" },
    refusal: "workspace is required and must be text. Correct this and call the tool again.",
  },
  terminate_session: {
    good: { childSessionId: "s2" },
    frame: { type: "terminate-child", childSessionId: "s2" },
    reads: "Session ended.",
    bad: { childSessionId: "" },
    refusal: "childSessionId must not be empty",
  },
  send_message: {
    good: { sessionId: "s2", content: "Hello", interrupt: null },
    frame: { type: "session-message", targetSessionId: "s2", content: "Hello" },
    reads: "Message sent.",
    bad: { sessionId: "s2", content: "Hello", interrupt: "yes" },
    refusal: "interrupt must be true or false",
  },
  read_messages: {
    good: { sessionId: "s2", limit: 20 },
    frame: { type: "session-messages", targetSessionId: "s2", limit: 20 },
    reads: "[user, 2026-01-01T00:00:00Z]\nHi",
    bad: { sessionId: "s2", limit: 0 },
    refusal: "limit must be a whole number, 1 or more",
  },
  forward_messages: {
    good: { sessionId: "s2", after: "m1" },
    frame: { type: "forward-messages", targetSessionId: "s2", after: "m1" },
    reads: "2 messages copied into this conversation.",
    bad: { limit: 3 },
    refusal: "sessionId is required and must be text",
  },
  list_sessions: {
    good: {},
    frame: { type: "list-child-sessions" },
    reads: `1 child session:\n${THING}`,
    ...nothing,
  },
  get_session_status: {
    good: { sessionId: "s2" },
    frame: { type: "get-session-status", targetSessionId: "s2" },
    reads: '"id": "x1"',
    bad: {},
    refusal: "sessionId is required and must be text",
  },
  notify_parent: {
    good: { message: "Done", interrupt: true },
    frame: {
      type: "session-message",
      targetSessionId: "the-parent",
      content: "Done",
      interrupt: true,
    },
    reads: "The parent session is notified.",
    bad: { message: "" },
    refusal: "message must not be empty",
  },
  wait_for_event: {
    good: { reason: "The child works." },
    reads: "End your turn now, without calling another tool. The next event, whichever it is,",
    ...nothing,
  },
} satisfies Record<string, Row>

const github = {
  create_pull_request: {
    good: { branch: "fix", title: "Fix it", body: "Because." },
    frame: { type: "create-pr", branch: "fix", title: "Fix it", body: "Because." },
    reads: "Pull request #7 (open): Fix it\nhttps://git.example/pull/7",
    bad: { branch: "fix" },
    refusal: "title is required and must be text",
  },
  update_pull_request: {
    good: { pr_number: 7, state: "closed", labels: ["bug"] },
    frame: { type: "update-pr", prNumber: 7, state: "closed", labels: ["bug"] },
    reads: "Pull request #7",
    bad: { pr_number: 7, state: "merged" },
    refusal: "state must be one of open, closed",
  },
  list_pull_requests: {
    good: { owner: "o", repo: "r", limit: 5 },
    frame: { type: "list-pull-requests", owner: "o", repo: "r", limit: 5 },
    reads: `1 pull request:\n${THING}`,
    bad: { owner: "o" },
    refusal: "owner must be given together with repo, or not at all",
  },
  inspect_pull_request: {
    good: { pr_number: "7", files_limit: 10 },
    frame: { type: "inspect-pull-request", prNumber: 7, filesLimit: 10 },
    reads: '"name": "Thing"',
    bad: { pr_number: 7, files_limit: 301 },
    refusal: "files_limit must be a whole number from 1 to 300",
  },
  report_git_state: {
    good: { branch: "fix", base_branch: "main", commit_count: 2 },
    frame: { type: "git-state", branch: "fix", baseBranch: "main", commitCount: 2 },
    reads: "Git state reported.",
    bad: { commit_count: -1 },
    refusal: "commit_count must be a whole number, 0 or more",
  },
  list_repos: {
    good: { source: "github" },
    frame: { type: "list-repos", source: "github" },
    reads: `1 repository:\n${THING}`,
    bad: { source: 1 },
    refusal: "source must be text",
  },
  read_repo_file: {
    good: { owner: "o", repo: "r", path: "README.md" },
    frame: { type: "read-repo-file", owner: "o", repo: "r", path: "README.md" },
    reads: "# R",
    bad: { owner: "o", repo: "r" },
    refusal: "path is required and must be text",
  },
} satisfies Record<string, Row>

const memories = {
  memory_read: {
    good: { category: "general", query: "tests", limit: 5 },
    frame: { type: "memory-read", category: "general", query: "tests", limit: 5 },
    reads: `1 memory:\n${THING}`,
    bad: { limit: "many" },
    refusal: "limit must be a whole number, 1 or more",
  },
  memory_write: {
    good: { content: "Tests are in test/", category: "general" },
    frame: { type: "memory-write", content: "Tests are in test/", category: "general" },
    reads: "Stored as x1.",
    bad: { content: "x" },
    refusal: "category is required and must be text",
  },
  memory_delete: {
    good: { id: "m 1/2" },
    frame: { type: "memory-delete", memoryId: "m 1/2" },
    reads: "The memory is deleted.",
    bad: {},
    refusal: "id is required and must be text",
  },
  memory_prune: {
    good: { category: "old", keepLatest: 0, dryRun: false },
    frame: { type: "memory-delete", memoryId: "x1" },
    reads: "1 of 1 memories deleted.",
    bad: { category: "old" },
    refusal: "olderThanDays or relevanceAtMost or keepLatest is required",
  },
} satisfies Record<string, Row>

const workflows = {
  list_workflows: {
    good: {},
    frame: { type: "workflow-list" },
    reads: `1 workflow:\n${THING}`,
    ...nothing,
  },
  get_workflow: {
    good: { id: "w1" },
    frame: action("workflow-api", "get", { workflowId: "w1" }),
    reads: '"name": "Thing"',
    bad: {},
    refusal: "id is required and must be text",
  },
  sync_workflow: {
    good: { name: "Daily", slug: "daily", data: '{"steps":[]}' },
    frame: { type: "workflow-sync", name: "Daily", slug: "daily", data: { steps: [] } },
    reads: "Saved.",
    bad: { name: "Daily", data: "no object" },
    refusal: "data must be an object",
  },
  update_workflow: {
    good: { id: "w1", enabled: false, tags: ["a"] },
    frame: action("workflow-api", "update", { workflowId: "w1", enabled: false, tags: ["a"] }),
    reads: "Saved.",
    bad: { id: "w1", tags: [1] },
    refusal: "tags.0 must be text",
  },
  delete_workflow: {
    good: { id: "w1" },
    frame: action("workflow-api", "delete", { workflowId: "w1" }),
    reads: "The workflow is deleted.",
    bad: { id: 1 },
    refusal: "id must be text",
  },
  run_workflow: {
    good: { workflowId: "w1", variables: { x: 1 } },
    frame: { type: "workflow-run", workflowId: "w1", variables: { x: 1 } },
    reads: "Started.",
    bad: { workflowId: "w1", variables: [1] },
    refusal: "variables must be an object",
  },
  list_workflow_history: {
    good: { id: "w1", limit: 200, offset: 0 },
    frame: action("workflow-api", "history", { workflowId: "w1", limit: 200, offset: 0 }),
    reads: `1 version:\n${THING}`,
    bad: { id: "w1", limit: 201 },
    refusal: "limit must be a whole number from 1 to 200",
  },
  rollback_workflow: {
    good: { id: "w1", targetWorkflowHash: "sha256:00" },
    frame: action("workflow-api", "rollback", {
      workflowId: "w1",
      targetWorkflowHash: "sha256:00",
    }),
    reads: "Rolled back.",
    bad: { id: "w1" },
    refusal: "targetWorkflowHash is required and must be text",
  },
  list_workflow_proposals: {
    good: { id: "w1", status: "open" },
    frame: action("workflow-api", "proposals", { workflowId: "w1", status: "open" }),
    reads: `1 proposal:\n${THING}`,
    bad: { id: "w1", offset: -1 },
    refusal: "offset must be a whole number, 0 or more",
  },
  create_workflow_proposal: {
    good: { id: "w1", baseWorkflowHash: "sha256:00", proposal: { steps: [] } },
    frame: action("workflow-api", "proposal-create", {
      workflowId: "w1",
      baseWorkflowHash: "sha256:00",
      proposal: { steps: [] },
    }),
    reads: "Proposed.",
    bad: { id: "w1", baseWorkflowHash: "sha256:00" },
    refusal: "proposal is required and must be an object",
  },
  review_workflow_proposal: {
    good: { id: "w1", pid: "p1", approve: true },
    frame: action("workflow-api", "proposal-review", {
      workflowId: "w1",
      proposalId: "p1",
      approve: true,
    }),
    reads: "Review recorded.",
    bad: { id: "w1", pid: "p1", approve: "perhaps" },
    refusal: "approve must be true or false",
  },
  apply_workflow_proposal: {
    good: { id: "w1", pid: "p1", version: "3" },
    frame: action("workflow-api", "proposal-apply", {
      workflowId: "w1",
      proposalId: "p1",
      version: "3",
    }),
    reads: "Applied.",
    bad: { id: "w1" },
    refusal: "pid is required and must be text",
  },
  list_workflow_executions: {
    good: { workflowId: "w1", limit: 1 },
    frame: { type: "workflow-executions", workflowId: "w1", limit: 1 },
    reads: `1 execution:\n${THING}`,
    bad: { limit: 0 },
    refusal: "limit must be a whole number from 1 to 200",
  },
} satisfies Record<string, Row>

const triggers = {
  list_triggers: {
    good: { workflowId: "w1", enabled: true },
    frame: action("trigger-api", "list", { workflowId: "w1", enabled: true }),
    reads: `1 trigger:\n${THING}`,
    bad: { enabled: "perhaps" },
    refusal: "enabled must be true or false",
  },
  sync_trigger: {
    good: {
      name: "Nightly",
      type: "schedule",
      schedule_cron: "0 3 * * *",
      schedule_timezone: "UTC",
      workflow_id: null,
    },
    frame: action("trigger-api", "create", {
      name: "Nightly",
      workflowId: null,
      config: { type: "schedule", cron: "0 3 * * *", timezone: "UTC" },
    }),
    reads: "Created.",
    bad: { name: "Nightly", type: "schedule" },
    refusal: "schedule_cron is required for a schedule",
  },
  run_trigger: {
    good: { id: "t1", branch: "main" },
    frame: action("trigger-api", "run", { triggerId: "t1", branch: "main" }),
    reads: "Started.",
    bad: { branch: "main" },
    refusal: "id is required and must be text",
  },
  delete_trigger: {
    good: { id: "t1" },
    frame: action("trigger-api", "delete", { triggerId: "t1" }),
    reads: "The trigger is deleted.",
    bad: {},
    refusal: "id is required and must be text",
  },
} satisfies Record<string, Row>

const executions = {
  get_execution: {
    good: { id: "e1" },
    frame: action("execution-api", "get", { executionId: "e1" }),
    reads: '"name": "Thing"',
    bad: {},
    refusal: "id is required and must be text",
  },
  get_execution_steps: {
    good: { id: "e1" },
    frame: action("execution-api", "steps", { executionId: "e1" }),
    reads: `1 step:\n${THING}`,
    bad: { id: "" },
    refusal: "id must not be empty",
  },
  cancel_execution: {
    good: { id: "e1" },
    frame: action("execution-api", "cancel", { executionId: "e1" }),
    reads: "Cancelled.",
    bad: { reason: "x" },
    refusal: "id is required and must be text",
  },
  debug_execution: {
    good: { id: "e9" },
    frame: action("execution-api", "steps", { executionId: "e9" }),
    reads: "Next: it is still running",
    bad: {},
    refusal: "id is required and must be text",
  },
} satisfies Record<string, Row>

const board = {
  emit_notification: {
    good: { to_user_id: "u1", content: "Deployed" },
    frame: { type: "mailbox-send", toUserId: "u1", content: "Deployed" },
    reads: "Notified (n1).",
    bad: { content: "Deployed" },
    refusal: "give exactly one of to_session_id, to_user_id and to_handle",
  },
  mailbox_send: {
    good: { to_handle: "ann", content: "Hello" },
    frame: { type: "mailbox-send", toHandle: "ann", content: "Hello" },
    reads: "Sent as n1.",
    bad: { to_handle: "ann" },
    refusal: "content is required and must be text",
  },
  mailbox_check: {
    good: { limit: 10 },
    frame: { type: "mailbox-check", limit: 10 },
    reads: `1 notification:\n${THING}`,
    bad: { limit: 1.5 },
    refusal: "limit must be a whole number, 1 or more",
  },
  task_create: {
    good: { title: "Test", blocked_by: ["k1"] },
    frame: { type: "task-create", title: "Test", blockedBy: ["k1"] },
    reads: "Created.",
    bad: { title: "Test", blocked_by: "k1" },
    refusal: "blocked_by must be a list of texts",
  },
  task_list: {
    good: { status: "open" },
    frame: { type: "task-list", status: "open" },
    reads: `1 task:\n${THING}`,
    bad: { status: "" },
    refusal: "status must not be empty",
  },
  task_update: {
    good: { id: "k1", status: "done", result: "Works" },
    frame: { type: "task-update", taskId: "k1", status: "done", result: "Works" },
    reads: "Saved.",
    bad: { status: "done" },
    refusal: "id is required and must be text",
  },
  my_tasks: {
    good: { status: "open" },
    frame: { type: "task-my", status: "open" },
    reads: `1 task:\n${THING}`,
    bad: { status: 1 },
    refusal: "status must be text",
  },
  list_personas: {
    good: {},
    frame: { type: "list-personas" },
    reads: `1 persona:\n${THING}`,
    ...nothing,
  },
} satisfies Record<string, Row>

const tunnels = {
  register_tunnel: {
    good: { name: "web", port: 5173 },
    frame: {
      type: "tunnels",
      tunnels: [{ name: "web", port: 5173, protocol: "auto", path: "/t/web" }],
    },
    reads: "The tunnel is at /t/web/ on this sandbox's URL, but nothing listens on port 5173 yet",
    bad: { name: "a b", port: 5173 },
    refusal: "name must be 1 to 32 letters, digits, _ or -",
  },
  list_tunnels: { good: {}, reads: "tunnel", ...nothing },
  write_tunnel_env: {
    good: { set_api_url_from: "kept" },
    reads: "TUNNEL_KEPT_URL=https://sandbox.example/t/kept",
    bad: { file_path: "../out.env" },
    refusal: "file_path must be a path inside the workspace",
  },
  unregister_tunnel: {
    good: { name: "old" },
    reads: "Tunnel closed.",
    bad: { name: "nope" },
    refusal: "there is no tunnel nope. Check the name or id with a list tool.",
  },
} satisfies Record<string, Row>

const secrets = {
  secret_list: {
    good: {},
    reads: '{"reference":"secret://api/token"}',
    bad: { vault_id: 1 },
    refusal: "vault_id must be text",
  },
  secret_inject: {
    good: { templatePath: "env.tpl", outputPath: ".env" },
    reads: "Written with 1 secrets.",
    bad: { templatePath: "env.tpl", outputPath: "../.env" },
    refusal: "../.env lies outside the workspace",
  },
  save_service_commands: {
    good: { services: [{ name: "web", command: "make serve" }] },
    reads: "Saved.",
    bad: { services: [{ name: "a b", command: "make serve" }] },
    refusal: "must be 1 to 40 letters, digits, _ or -",
  },
  save_env_files: {
    good: { files: [{ path: "setup.env", variables: { TOKEN: "secret://api/token" } }] },
    reads: "Saved and written.",
    bad: { files: [{ path: "../setup.env", variables: {} }] },
    refusal: "lies outside the workspace",
  },
  secret_run: {
    good: { command: 'env | base64; echo "$TOKEN"', env: { TOKEN: "secret://api/token" } },
    reads: "[secret]",
    bad: { command: "env", env: { TOKEN: "secret://nope" } },
    refusal: "there is no secret secret://nope",
  },
  secret_fill: {
    good: { selector: "#password", secret_ref: "secret://api/token" },
    reads: "The field is filled.",
    bad: { selector: "#password", secret_ref: "letmein" },
    refusal: "letmein is not a reference to a secret",
  },
} satisfies Record<string, Row>

const channels = {
  list_channels: {
    good: {},
    frame: { type: "list-channels" },
    reads: `1 channel:\n${THING}`,
    ...nothing,
  },
  channel_reply: {
    good: { channel_type: "slack", channel_id: "C1", message: "Look", image_path: "dot.png" },
    frame: {
      type: "channel-reply",
      channelType: "slack",
      channelId: "C1",
      message: "Look",
      imageMimeType: "image/png",
    },
    reads: "Sent.",
    bad: { channel_type: "slack", channel_id: "C1" },
    refusal: "message must not be empty when there is no image",
  },
} satisfies Record<string, Row>

const research = {
  parallel_web_search: {
    good: { objective: "What is new in Bun?", max_results: 2 },
    reads: "# A page\nhttps://page.example\nan excerpt",
    bad: {},
    refusal: "objective is required and must be text",
  },
  parallel_web_extract: {
    good: { urls: ["https://page.example"], full_content: true },
    reads: "# A page\nhttps://page.example\nall of it",
    bad: { urls: [] },
    refusal: "urls must not be empty",
  },
  parallel_deep_research: {
    good: { question: "Why?", processor: "base" },
    reads: "Because.",
    bad: { question: "Why?", processor: "huge" },
    refusal: "processor must be one of base, core, pro, ultra",
  },
  parallel_data_enrichment: {
    good: { data: { company: "Example" }, fields: { founded: "The year" } },
    reads: '"founded": "1999"',
    bad: { data: { company: "Example" }, fields: "founded" },
    refusal: "fields must be an object of names and descriptions",
  },
} satisfies Record<string, Row>

const others = {
  browser_screenshot: {
    good: { filename: "page.png" },
    frame: { type: "screenshot", description: "page.png", mimeType: "image/png" },
    reads: "The screenshot is attached",
    bad: { filename: "a/b.png" },
    refusal: "filename must be 1 to 64 letters, digits, dots, _ or -",
  },
  send_image: {
    good: { source: "dot.png", caption: "A dot" },
    frame: { type: "screenshot", description: "A dot", mimeType: "image/png" },
    reads: "The image is shown to the user.",
    bad: { source: "env.tpl" },
    refusal: "The file is not a PNG, JPEG, GIF or WebP image.",
  },
  transcribe_audio: {
    good: { file_path: "said.ogg", model: "base", language: "en" },
    reads: "Hello from the recording.",
    bad: { file_path: "none.ogg" },
    refusal: "There is no file none.ogg.",
  },
  sleep: {
    good: { seconds: 0.05, reason: "the server" },
    reads: "Waited 0.05 seconds.",
    bad: { seconds: -1 },
    refusal: "seconds must be a number from 0 to 3600",
  },
} satisfies Record<string, Row>

/** All tools except complete_session, which ends the runner and therefore has its own test at the end. */
export const rows: Readonly<Record<string, Row>> = {
  ...sessions,
  ...github,
  ...memories,
  ...workflows,
  ...triggers,
  ...executions,
  ...board,
  ...tunnels,
  ...secrets,
  ...channels,
  ...research,
  ...others,
}
