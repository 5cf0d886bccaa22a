/**
 * A peer's tools as facts, for bench/tokens.ts: names and arguments of the 69 tools that a comparable sandbox offers to OpenCode
 * in every session. Their descriptions are not known here, so sizes made from this list are a lower bound.
 */

/** `name argument argument? argument:number`; arguments are strings unless a type follows. */
const list = `
spawn_session task workspace repo_url? branch? ref? title? source_type? source_pr_number:number? source_issue_number:number? source_repo_full_name? model?
terminate_session session_id
complete_session
notify_parent message interrupt:boolean?
send_message session_id message interrupt:boolean?
read_messages session_id limit:number? after?
forward_messages session_id limit:number? after?
get_session_status session_id
list_sessions
wait_for_event reason? session_ids:array? notify_on? statuses:array?
sleep seconds:number reason?
create_pull_request branch title body? base?
update_pull_request pr_number:number title? body? state? labels:array?
list_pull_requests owner? repo? state? limit:number?
inspect_pull_request prNumber:number owner? repo? filesLimit:number? commentsLimit:number?
list_repos source
read_repo_file path repo? owner? repo_name? repo_url? ref?
report_git_state branch? base_branch? commit_count:number?
memory_read category? query? limit:number?
memory_write content category
memory_delete memoryId
memory_prune older_than_days:number? keep:number? dryRun:boolean?
list_workflows
get_workflow workflow_id
sync_workflow id? slug? name description? version? data_json
update_workflow workflow_id name? description? slug? version? enabled:boolean? tags:array? data_json?
delete_workflow workflow_id
run_workflow workflow_id variables_json? repo_url? branch? ref? source_repo_full_name?
list_workflow_history workflow_id limit:number? offset:number?
rollback_workflow workflow_id target_workflow_hash version? notes?
list_workflow_proposals workflow_id status? limit:number? offset:number?
create_workflow_proposal workflow_id base_workflow_hash proposal_json execution_id? diff_text? expires_at?
review_workflow_proposal workflow_id proposal_id approve:boolean notes?
apply_workflow_proposal workflow_id proposal_id review_notes? version?
list_workflow_executions workflow_id? limit:number?
get_execution execution_id
get_execution_steps execution_id
debug_execution execution_id
approve_execution execution_id approve:boolean resume_token reason?
cancel_execution execution_id reason?
list_triggers workflow_id? type? enabled:boolean?
sync_trigger trigger_id? workflow_id? name enabled:boolean? type cron? timezone? target? prompt? variable_mapping_json?
run_trigger trigger_id variables_json? repo_url? branch? ref? source_repo_full_name?
delete_trigger trigger_id
list_tunnels
register_tunnel name port:number protocol?
unregister_tunnel name
write_tunnel_env file_path? prefix? token?
emit_notification to_session_id? to_user_id? to_handle? message_type? content context_session_id? context_task_id? reply_to_id?
mailbox_send to_session_id? to_user_id? to_handle? message_type? content context_session_id? context_task_id? reply_to_id?
mailbox_check limit:number? after?
task_create title description? session_id? parent_task_id? blocked_by:array?
task_list status? limit:number?
task_update task_id status? result? description? session_id? title?
my_tasks status?
list_channels
channel_reply channel_type channel_id message image_path? follow_up:boolean?
list_personas
secret_list vault_id?
secret_inject template_path output_path
secret_run command env_json cwd? timeout:number?
secret_fill selector secret_ref timeout:number?
browser_screenshot filename?
send_image source caption?
transcribe_audio file_path model? language?
parallel_web_search objective search_queries:array? max_results:number?
parallel_web_extract urls:array objective?
parallel_deep_research objective processor?
parallel_data_enrichment input_json schema_json processor?
`

const propertyOf = (type: string): object =>
  type === "array" ? { type, items: { type: "string" } } : { type }

/** The definition as OpenCode sends it for a tool without any description. */
const definitionOf = (line: string): object => {
  const [name = "", ...args] = line.split(" ")
  const fields = args.map((arg) => {
    const [, field = "", type = "string", optional] = /^(\w+)(?::(\w+))?(\?)?$/.exec(arg) ?? []
    return { field, type, isRequired: optional === undefined }
  })
  const parameters = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: Object.fromEntries(fields.map(({ field, type }) => [field, propertyOf(type)])),
    required: fields.flatMap(({ field, isRequired }) => (isRequired ? [field] : [])),
  }
  return { type: "function", function: { name, description: "", parameters } }
}

export const peerTools: readonly { readonly name: string; readonly bytes: number }[] = list
  .trim()
  .split("\n")
  .map((line) => ({
    name: line.split(" ", 1)[0] ?? "",
    bytes: Buffer.byteLength(JSON.stringify(definitionOf(line))) + 1,
  }))
