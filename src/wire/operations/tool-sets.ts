/**
 * Which tools a session offers to its model: three sets, each containing the one before, and what a group of tools needs.
 * Every tool is in the request of every turn, so a tool that cannot be used costs money and context for nothing.
 */
export const toolSets = ["core", "team", "all"] as const

export type ToolSet = (typeof toolSets)[number]

/** Something outside OpenCode without which a group of tools cannot work. */
export type Need = "parallel key" | "secrets" | "browser" | "parent session" | "setup session"

interface ToolGroup {
  /** The smallest set with this group. */
  readonly set: ToolSet
  readonly tools: readonly string[]
  /** Without it the group is off in `core` and `team`. In `all` a tool says itself what is missing. */
  readonly needs?: Need
}

/** Tools of a session that prepares a snapshot for others. */
const setupTools = ["save_service_commands", "save_env_files"]

/** Every tool is in exactly one group. */
export const toolGroups: readonly ToolGroup[] = [
  { set: "core", tools: ["send_image", "list_workflows"] },
  { set: "core", tools: ["register_tunnel", "list_tunnels", "unregister_tunnel"] },
  { set: "core", tools: ["browser_screenshot"], needs: "browser" },
  { set: "core", tools: ["secret_list", "secret_run", "secret_inject"], needs: "secrets" },
  { set: "core", tools: ["secret_fill"], needs: "secrets" },
  { set: "core", tools: setupTools, needs: "setup session" },
  { set: "core", tools: ["parallel_web_search", "parallel_web_extract"], needs: "parallel key" },
  {
    set: "team",
    tools: [
      "spawn_session",
      "list_sessions",
      "get_session_status",
      "terminate_session",
      "complete_session",
      "send_message",
      "read_messages",
      "wait_for_event",
    ],
  },
  { set: "team", tools: ["notify_parent"], needs: "parent session" },
  {
    set: "team",
    tools: [
      "create_pull_request",
      "update_pull_request",
      "inspect_pull_request",
      "list_pull_requests",
      "report_git_state",
    ],
  },
  { set: "team", tools: ["mailbox_send", "mailbox_check"] },
  { set: "team", tools: ["task_create", "task_list", "task_update", "my_tasks"] },
  { set: "team", tools: ["memory_read", "memory_write", "memory_delete"] },
  { set: "all", tools: ["parallel_deep_research", "parallel_data_enrichment"] },
  { set: "all", tools: ["forward_messages", "emit_notification", "memory_prune", "sleep"] },
  { set: "all", tools: ["list_channels", "channel_reply", "list_personas", "write_tunnel_env"] },
  { set: "all", tools: ["list_repos", "read_repo_file", "transcribe_audio"] },
  {
    set: "all",
    tools: [
      "run_workflow",
      "get_workflow",
      "list_workflow_executions",
      "get_execution",
      "debug_execution",
      "cancel_execution",
      "get_execution_steps",
      "sync_workflow",
      "update_workflow",
      "delete_workflow",
      "list_workflow_history",
      "rollback_workflow",
      "create_workflow_proposal",
      "list_workflow_proposals",
      "review_workflow_proposal",
      "apply_workflow_proposal",
      "list_triggers",
      "sync_trigger",
      "run_trigger",
      "delete_trigger",
    ],
  },
]

/** Tools that use the git host. A session agent without one turns them off. */
export const gitHostTools: readonly string[] = [
  "create_pull_request",
  "update_pull_request",
  "inspect_pull_request",
  "list_pull_requests",
  "list_repos",
  "read_repo_file",
]

/** Tools that run stored workflows. A session agent that has workflows turns them on in every set. */
export const workflowUseTools: readonly string[] = ["run_workflow", "get_execution"]

/**
 * Tools that a session does not offer. `optional` ones may be turned on by the session agent's config; `impossible`
 * ones stay off, because no call of them can succeed.
 */
export const toolsOffIn = (
  set: ToolSet,
  missing: ReadonlySet<Need>,
): { readonly optional: readonly string[]; readonly impossible: readonly string[] } => {
  const isOff = ({ set: first, needs }: ToolGroup) =>
    toolSets.indexOf(first) > toolSets.indexOf(set) ||
    (set !== "all" && needs !== undefined && missing.has(needs))
  return {
    optional: toolGroups.filter(isOff).flatMap(({ tools }) => tools),
    impossible: [
      ...(missing.has("parallel key") ? ["parallel_*"] : []),
      ...(missing.has("setup session") ? setupTools : []),
    ],
  }
}
