/**
 * What each tool does outside the conversation, and where it is seen. Plain data: docs/tools.md lists it, and each entry has
 * a row in `rows/` that makes the call through the whole system and looks at that place.
 */

export type SeenBy =
  | "client"
  | "other session"
  | "git host"
  | "chat service"
  | "web service"
  | "file"
  | "process"
  | "browser"
  | "model"

export interface Effect {
  readonly effect: string
  readonly seenBy: SeenBy
}

export const effects = {
  spawn_session: {
    effect:
      "A runner with its own workspace works on the task and reports its answer to the parent.",
    seenBy: "process",
  },
  list_sessions: {
    effect: "The model reads the title and the state of each child session.",
    seenBy: "model",
  },
  terminate_session: {
    effect: "The runner of the child ends, and the child takes no prompt any more.",
    seenBy: "process",
  },
  get_session_status: {
    effect: "The model reads the title and the state of the other session.",
    seenBy: "model",
  },
  send_message: { effect: "The other session gets a prompt.", seenBy: "other session" },
  read_messages: {
    effect: "The model reads the conversation of the other session.",
    seenBy: "model",
  },
  forward_messages: {
    effect: "The messages of the other session appear in this conversation.",
    seenBy: "client",
  },
  notify_parent: { effect: "The parent session gets a prompt.", seenBy: "other session" },
  wait_for_event: {
    effect: "The turn ends; the next event starts a new one.",
    seenBy: "client",
  },
  create_pull_request: { effect: "The pull request is open.", seenBy: "git host" },
  update_pull_request: {
    effect: "The pull request has the new title, state and labels.",
    seenBy: "git host",
  },
  list_pull_requests: {
    effect: "The model reads the pull requests of the repository.",
    seenBy: "model",
  },
  inspect_pull_request: {
    effect: "The model reads the pull request with its files and comments.",
    seenBy: "model",
  },
  report_git_state: { effect: "The client shows the branch and its commits.", seenBy: "client" },
  list_repos: { effect: "The model reads the repositories of the user.", seenBy: "model" },
  read_repo_file: {
    effect: "The model reads a file of a repository that is not checked out.",
    seenBy: "model",
  },
  memory_write: { effect: "Another session finds the memory.", seenBy: "other session" },
  memory_read: { effect: "The model reads the memory of another session.", seenBy: "model" },
  memory_delete: { effect: "Another session finds the memory no more.", seenBy: "other session" },
  memory_prune: {
    effect: "Another session finds only the memories to keep.",
    seenBy: "other session",
  },
  sync_workflow: { effect: "Another session lists the workflow.", seenBy: "other session" },
  list_workflows: { effect: "The model reads the workflows of other sessions.", seenBy: "model" },
  get_workflow: { effect: "The model reads the definition of the workflow.", seenBy: "model" },
  update_workflow: {
    effect: "Another session reads the new definition.",
    seenBy: "other session",
  },
  delete_workflow: {
    effect: "Another session finds the workflow no more.",
    seenBy: "other session",
  },
  run_workflow: { effect: "The commands of the workflow run in the workspace.", seenBy: "file" },
  list_workflow_history: { effect: "The model reads every version.", seenBy: "model" },
  rollback_workflow: {
    effect: "Another session reads the earlier definition again.",
    seenBy: "other session",
  },
  list_workflow_proposals: {
    effect: "The model reads the proposal of another session.",
    seenBy: "model",
  },
  create_workflow_proposal: { effect: "Another session lists it.", seenBy: "other session" },
  review_workflow_proposal: {
    effect: "Another session may apply the proposal.",
    seenBy: "other session",
  },
  apply_workflow_proposal: {
    effect: "Another session reads the proposed definition as the current one.",
    seenBy: "other session",
  },
  list_workflow_executions: { effect: "The model reads the runs.", seenBy: "model" },
  list_triggers: { effect: "The model reads the triggers.", seenBy: "model" },
  sync_trigger: {
    effect: "A call of the webhook runs the workflow with the data of the call.",
    seenBy: "file",
  },
  run_trigger: { effect: "The workflow of the trigger runs.", seenBy: "file" },
  delete_trigger: { effect: "The webhook does not exist any more.", seenBy: "web service" },
  get_execution: {
    effect: "The model reads the status and the output of the run.",
    seenBy: "model",
  },
  get_execution_steps: { effect: "The model reads the output of each step.", seenBy: "model" },
  cancel_execution: { effect: "The command of the run ends.", seenBy: "process" },
  debug_execution: {
    effect: "The model reads which step failed and its error.",
    seenBy: "model",
  },
  emit_notification: {
    effect: "The mailbox of the other session has the notification.",
    seenBy: "other session",
  },
  mailbox_send: {
    effect: "The mailbox of the other session has the message.",
    seenBy: "other session",
  },
  mailbox_check: { effect: "The model reads the message of another session.", seenBy: "model" },
  task_create: { effect: "Another session lists the task.", seenBy: "other session" },
  task_list: { effect: "The model reads the tasks of other sessions.", seenBy: "model" },
  task_update: {
    effect: "Another session reads the new status and result.",
    seenBy: "other session",
  },
  my_tasks: { effect: "The model reads only the tasks of this session.", seenBy: "model" },
  list_personas: {
    effect: "The model reads the personas of the owner.",
    seenBy: "model",
  },
  register_tunnel: {
    effect: "A person reaches the server in the sandbox through the gateway.",
    seenBy: "browser",
  },
  list_tunnels: { effect: "The model reads the open tunnels.", seenBy: "model" },
  write_tunnel_env: { effect: "The file has the URL of every tunnel.", seenBy: "file" },
  unregister_tunnel: {
    effect: "The gateway does not lead to the server any more.",
    seenBy: "browser",
  },
  secret_list: { effect: "The model reads references, never values.", seenBy: "model" },
  secret_inject: { effect: "The file has the value.", seenBy: "file" },
  secret_run: {
    effect: "The command has the value; its output is redacted.",
    seenBy: "process",
  },
  secret_fill: { effect: "The field of the page has the value.", seenBy: "browser" },
  save_service_commands: {
    effect: "The service is in the list of the sandbox and runs when it is started.",
    seenBy: "process",
  },
  save_env_files: { effect: "The file has the value, and git does not list it.", seenBy: "file" },
  list_channels: { effect: "The model reads the channels of the session.", seenBy: "model" },
  channel_reply: {
    effect: "The message and the image arrive in the chat.",
    seenBy: "chat service",
  },
  parallel_web_search: { effect: "The model reads the pages that were found.", seenBy: "model" },
  parallel_web_extract: { effect: "The model reads the content of the page.", seenBy: "model" },
  parallel_deep_research: { effect: "The model reads the report.", seenBy: "model" },
  parallel_data_enrichment: { effect: "The model reads the missing data.", seenBy: "model" },
  browser_screenshot: { effect: "The conversation shows the screenshot.", seenBy: "client" },
  send_image: { effect: "The conversation shows the image.", seenBy: "client" },
  transcribe_audio: { effect: "The model reads the words of the recording.", seenBy: "model" },
  sleep: { effect: "The turn lasts at least that long.", seenBy: "client" },
  complete_session: {
    effect: "The runner exits, and the session takes no prompt any more.",
    seenBy: "process",
  },
} as const satisfies Readonly<Record<string, Effect>>

export type ToolName = keyof typeof effects
