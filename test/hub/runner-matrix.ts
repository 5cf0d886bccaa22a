/** Every request of a runner about things of another owner: it gets exactly what it gets for things that do not exist. */
import { expect, test } from "bun:test"
import type { RequestType } from "../../src/wire/frames/index.ts"
import type { OwnersStage } from "./kit/owners.ts"

/** Ids of things of one owner; `missing` has the same shape and names nothing. */
interface Things {
  readonly session: string
  readonly memory: string
  readonly task: string
  readonly mail: string
  readonly workflow: string
  readonly hash: string
  readonly proposal: string
  readonly execution: string
  readonly trigger: string
  readonly user: string
}

type Fields = Readonly<Record<string, unknown>>

const repository = { owner: "birds", repo: "heron" }
const api = (action: string, payload: Fields): Fields => ({ action, payload })

/** The requests of each type that name something. Total: a new request does not compile without a row. */
const requestsOf = (of: Things): Readonly<Record<RequestType, readonly Fields[]>> => ({
  "spawn-child": [{ task: "t", workspace: "w" }],
  "terminate-child": [{ childSessionId: of.session }],
  "list-child-sessions": [{}],
  "list-channels": [{}],
  "workspace-urls": [{ manifest: "get" }],
  "channel-reply": [{ channelType: "slack", channelId: "C1", message: "hi" }],
  "get-session-status": [{ targetSessionId: of.session }],
  "session-messages": [{ targetSessionId: of.session }],
  "forward-messages": [{ targetSessionId: of.session }],
  "session-message": [{ targetSessionId: of.session, content: "run this" }],
  "create-pr": [{ branch: "b", title: "t", checkout: "birds/heron" }],
  "update-pr": [{ prNumber: 1, title: "t", checkout: "birds/heron" }],
  "list-pull-requests": [repository],
  "inspect-pull-request": [{ ...repository, prNumber: 1 }],
  "list-repos": [{}],
  "read-repo-file": [{ ...repository, path: "a" }],
  "git-token": [{ origin: "https://github.com", repositories: ["birds/heron"] }],
  "memory-read": [{ query: "vault" }, {}],
  "memory-write": [],
  "memory-delete": [{ memoryId: of.memory }],
  "task-create": [{ title: "t", parentTaskId: of.task }],
  "task-list": [{}],
  "task-update": [{ taskId: of.task, status: "completed" }],
  "task-my": [{}],
  "mailbox-send": [
    { toSessionId: of.session, content: "x" },
    { toUserId: of.user, content: "x" },
    { toHandle: "@vault", content: "x" },
    { toSessionId: "own", replyToId: of.mail, content: "x" },
  ],
  "mailbox-check": [{}, { after: of.mail }],
  "workflow-list": [{}],
  "workflow-sync": [],
  "workflow-run": [{ workflowId: of.workflow }, { workflowId: of.workflow, branch: "b" }],
  "workflow-executions": [{ workflowId: of.workflow }, {}],
  "workflow-api": [
    ...["get", "history", "proposals", "delete"].map((action) =>
      api(action, { workflowId: of.workflow }),
    ),
    api("update", { workflowId: of.workflow, name: "mine" }),
    api("rollback", { workflowId: of.workflow, targetWorkflowHash: of.hash }),
    api("proposal-create", {
      workflowId: of.workflow,
      baseWorkflowHash: of.hash,
      proposal: { steps: [] },
    }),
    api("proposal-review", { workflowId: of.workflow, proposalId: of.proposal, approve: true }),
    api("proposal-apply", { workflowId: of.workflow, proposalId: of.proposal }),
  ],
  "trigger-api": [
    api("list", {}),
    api("create", {
      name: "t",
      workflowId: of.workflow,
      config: { type: "manual", prompt: "go" },
    }),
    api("update", { triggerId: of.trigger, enabled: false }),
    api("run", { triggerId: of.trigger }),
    api("delete", { triggerId: of.trigger }),
  ],
  "execution-api": ["get", "steps", "cancel"].map((action) =>
    api(action, { executionId: of.execution, approve: true, resumeToken: "t" }),
  ),
  "list-personas": [{}],
})

const missing: Things = {
  session: "missing-session",
  memory: "missing-memory",
  task: "missing-task",
  mail: "missing-mail",
  workflow: "missing-workflow",
  hash: "missing-hash",
  proposal: "missing-proposal",
  execution: "missing-execution",
  trigger: "missing-trigger",
  user: "missing-user",
}

/** The answer or the refusal, with the ids of things replaced by their names. */
const answerOf = async (asked: Promise<unknown>, things: Things): Promise<string> => {
  const text = await asked.then(
    (value) => JSON.stringify(value),
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )
  return Object.entries(things).reduce(
    (seen, [name, id]) => seen.replaceAll(id, `<${name}>`),
    text.replaceAll(/"requestId":"[^"]*"/g, ""),
  )
}

export const testRunnerMatrix = ({ session, runner }: OwnersStage): void => {
  const thingsOf = async (): Promise<Things> => {
    const made = await session("user:keeper", { handle: "vault" })
    const { request } = runner(made).uplink
    const idOf = (value: unknown) => (value as { readonly id: string }).id
    const { memory } = await request("memory-write", { content: "the vault", category: "facts" })
    const { task } = await request("task-create", { title: "open the vault" })
    const { messageId } = await request("mailbox-send", { toUserId: "keeper", content: "vault" })
    const steps = [{ type: "approval", id: "ok", prompt: "Open?" }]
    const { workflow } = await request("workflow-sync", {
      slug: `vault-${made.id}`,
      name: "vault",
      data: { steps },
    })
    const { workflowHash } = workflow as { readonly workflowHash: string }
    const proposed = await request("workflow-api", {
      action: "proposal-create",
      payload: {
        workflowId: idOf(workflow),
        baseWorkflowHash: workflowHash,
        proposal: { steps },
      },
    })
    const { execution } = await request("workflow-run", { workflowId: idOf(workflow) })
    const created = await request("trigger-api", {
      action: "create",
      payload: { name: "door", config: { type: "manual", prompt: "ring" } },
    })
    return {
      session: made.id,
      memory: idOf(memory),
      task: idOf(task),
      mail: messageId,
      workflow: idOf(workflow),
      hash: workflowHash,
      proposal: idOf((proposed.data as { readonly proposal: unknown }).proposal),
      execution: idOf(execution),
      trigger: idOf((created.data as { readonly trigger: unknown }).trigger),
      user: "keeper",
    }
  }

  test("every request of a runner about things of another owner gets the answer of missing things", async () => {
    const keeper = await thingsOf()
    const prober = await session("user:prober")
    const { request } = runner(prober).uplink
    const ask = (type: RequestType, fields: Fields, things: Things) => {
      const own = fields["toSessionId"] === "own" ? { ...fields, toSessionId: prober.id } : fields
      return answerOf(request(type, own as never), things)
    }
    const foreign = requestsOf(keeper)
    const absent = requestsOf(missing)
    const told: string[] = []
    for (const type of Object.keys(foreign) as RequestType[]) {
      for (const [index, fields] of foreign[type].entries()) {
        const seen = await ask(type, fields, keeper)
        const expected = await ask(type, absent[type][index] ?? {}, missing)
        if (seen !== expected) told.push(`${type} ${index}: ${seen} instead of ${expected}`)
        if (/vault/.test(seen) && !/handle @vault/.test(seen)) told.push(`${type}: ${seen}`)
      }
    }
    expect(told).toEqual([])
  }, 120_000)
}
