/** What tools and triggers cause at the far end, on every host: the contract of the hub's effects. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { RequestFields, RequestResult } from "../../src/wire/frames/index.ts"
import { GITHUB_TOKEN, type GithubApi, startGithubApi } from "../kit/github-api.ts"
import type { ContractHost } from "./contract.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./kit/fake-runner.ts"
import { RUNNER_TOKEN } from "./kit/hub.ts"
import { connectRawRunner, type RawRunner } from "./kit/raw-runner.ts"
import { untilTrue } from "../kit/until-true.ts"

export type EffectsHost = Pick<ContractHost, "url" | "clientToken" | "restart" | "stop">

interface Created {
  readonly id: string
  readonly secret: string
}

type Environment = Readonly<Record<string, string>>

export const testEffects = (
  name: string,
  start: (environment: Environment) => Promise<EffectsHost>,
): void => {
  let host: EffectsHost
  let folder: string
  let github: GithubApi
  let flaky: FlakyApi
  const runners: FakeRunner[] = []
  const clients: TestClient[] = []

  const call = (method: string, path: string, body?: object) =>
    fetch(`${host.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${host.clientToken}` },
      ...(body && { body: JSON.stringify(body) }),
    })
  const createSession = async (session: string, fields: object = {}) => {
    const body = { runnerToken: RUNNER_TOKEN, ...fields }
    expect((await call("PUT", `/sessions/${session}`, body)).status).toBe(201)
  }
  const startRunner = (session: string, options: Partial<FakeRunnerOptions> = {}): FakeRunner => {
    const runner = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/${session}/ws`,
      token: RUNNER_TOKEN,
      stateDir: join(folder, `runner-${session}`),
      answer: ({ content }) => [`answer to: ${content}`],
      eager: true,
      ...options,
    })
    runners.push(runner)
    return runner
  }
  const connect = async (session: string): Promise<TestClient> => {
    const client = await connectClient(host.url, host.clientToken, { session })
    clients.push(client)
    return client
  }
  const createTrigger = async (
    runner: FakeRunner,
    payload: Record<string, unknown>,
  ): Promise<Created> => {
    const { data } = await runner.uplink.request("trigger-api", { action: "create", payload })
    return (data as { readonly trigger: Created }).trigger
  }
  const callHook = async (
    { id, secret }: Created,
    body = "{}",
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const response = await fetch(`${host.url}/hooks/${id}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${secret}`, ...headers },
      body,
    })
    return { status: response.status, body: await response.json() }
  }
  const fire = async (trigger: Created) =>
    expect(await callHook(trigger)).toEqual({ status: 202, body: { ok: true } })
  const syncWorkflow = (runner: FakeRunner): Promise<RequestResult<"workflow-sync">> => {
    const fields: RequestFields<"workflow-sync"> = {
      slug: "nightly",
      name: "nightly",
      version: "1",
      data: { steps: [{ id: "one", type: "bash", command: "true" }] },
    }
    return runner.uplink.request("workflow-sync", fields)
  }
  const notesIn = (client: TestClient) =>
    client
      .messages()
      .flatMap(({ role, parts }) => (role === "system" ? parts.map(({ text }) => text) : []))

  describe(name, () => {
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), "effects-"))
      github = startGithubApi([
        { fullName: "birds/heron", defaultBranch: "trunk", isPrivate: false, files: { a: "b" } },
      ])
      flaky = startFlakyApi(github.url)
      host = await start({ GITHUB_TOKEN, GITHUB_API_URL: flaky.url })
      await createSession("s1")
    })
    afterEach(async () => {
      for (const client of clients.splice(0)) client.close()
      await Promise.all(runners.splice(0).map((runner) => runner.stop()))
      await host.stop()
      await flaky.stop()
      await github.stop()
      await rm(folder, { recursive: true, force: true })
    })

    describe("a child session", () => {
      const contents = ({ prompts }: FakeRunner) => prompts.map(({ content }) => content)

      test("a parent hears once of the end of the work that it ordered, of a failure and of the end of the child", async () => {
        await createSession("c1", { parent: "s1", title: "helper" })
        const parent = startRunner("s1")
        const child = startRunner("c1", { eager: false })
        const watcher = await connect("s1")
        await parent.uplink.request("session-message", { targetSessionId: "c1", content: "count" })
        await untilTrue(() => child.busy() === 1, "work of the child")
        child.work(1)
        await untilTrue(() => parent.prompts.length === 1, "report of the answer")
        expect(contents(parent)[0]).toBe(
          "Child session c1 (helper) has finished its work. Its answer:\n\nanswer to: count",
        )
        await parent.uplink.request("session-message", { targetSessionId: "c1", content: "fail" })
        await untilTrue(() => child.busy() === 1, "second work of the child")
        const failed = child.prompts.at(-1)?.messageId ?? ""
        const address = { messageId: failed, channelType: "web", channelId: "default" }
        child.send({ type: "error", error: "no credit", ...address })
        child.send({ type: "complete", ...address })
        await untilTrue(() => parent.prompts.length === 2, "report of the failure")
        expect(contents(parent)[1]).toBe("Child session c1 (helper) has failed:\n\nno credit")
        await host.restart()
        child.send({ type: "self-terminate" })
        await untilTrue(() => parent.prompts.length === 3, "report of the end")
        expect(contents(parent)[2]).toStartWith("Child session c1 (helper) has ended.")
        await untilTrue(() => parent.busy() === 0, "end of the parent's turns")
        expect(parent.prompts).toHaveLength(3)
        const later = await connect("s1")
        expect(later.state("child:c1")).toEqual({
          childSessionId: "c1",
          title: "helper",
          status: "ended",
        })
        expect(watcher.events).not.toBeEmpty()
      })

      test("a parent gets a question of its child, and its message is the answer", async () => {
        await createSession("c1", { parent: "s1" })
        const parent = startRunner("s1")
        const child = startRunner("c1", { eager: false })
        await parent.uplink.request("session-message", { targetSessionId: "c1", content: "ask me" })
        await untilTrue(() => child.busy() === 1, "work of the child")
        child.send({
          type: "question",
          questionId: "q1",
          text: "Which colour?",
          messageId: child.prompts[0]?.messageId ?? "",
          channelType: "web",
          channelId: "default",
        })
        await untilTrue(() => parent.prompts.length === 1, "report of the question")
        expect(contents(parent)[0]).toContain("asks a question and waits")
        expect(contents(parent)[0]).toContain("Which colour?")
        const watcher = await connect("s1")
        expect(watcher.state("child:c1")).toMatchObject({ status: "asking" })
        await parent.uplink.request("session-message", { targetSessionId: "c1", content: "green" })
        const isAnswer = ({ type }: { readonly type: string }) => type === "answer"
        await untilTrue(() => child.frames.some(isAnswer), "answer")
        expect(child.frames.find(isAnswer)).toMatchObject({ questionId: "q1", answer: "green" })
        expect(child.prompts).toHaveLength(1)
      })

      test("a message of a child reaches its parent as a prompt and is not reported further", async () => {
        await createSession("c1", { parent: "s1" })
        const parent = startRunner("s1")
        const child = startRunner("c1")
        await child.uplink.request("session-message", {
          targetSessionId: "s1",
          content: "half done",
        })
        await untilTrue(() => parent.prompts.length === 1, "message")
        expect(parent.prompts[0]).toMatchObject({
          content: "half done",
          authorName: "session c1",
        })
      })

      test("a parent without a runner gets the end of its child when the runner connects, after a restart of the host", async () => {
        await createSession("c1", { parent: "s1" })
        await call("DELETE", "/sessions/c1")
        await host.restart()
        const parent = startRunner("s1")
        await untilTrue(() => parent.prompts.length === 1, "report of the end")
        await host.restart()
        await untilTrue(() => parent.busy() === 0, "end of the parent's turn")
        expect(contents(parent)).toEqual(["Child session c1 has ended.\n\nended by a client"])
      })

      test("clients of the parent see a child that the runner announces", async () => {
        const parent = startRunner("s1")
        const watcher = await connect("s1")
        parent.send({ type: "child-session", childSessionId: "c9" })
        await watcher.until(() => watcher.state("child:c9") !== undefined, "child")
        expect(watcher.state("child:c9")).toMatchObject({ childSessionId: "c9", status: "running" })
      })
    })

    describe("a workflow that is stored", () => {
      const command = { type: "bash", command: "true" }
      const loop = (fields: object) => ({ type: "loop", steps: [command], ...fields })

      test.each([
        [{ type: "nope" }, "data.steps.1.type: is not a known step type"],
        [{ type: "bash" }, "data.steps.1.command: must be a text"],
        [{ type: "parallel", steps: [{ type: "bash" }] }, "data.steps.1.steps.0.command"],
        [loop({ times: 101 }), "data.steps.1.times: 101 iterations exceed maxIterations (100)"],
        [loop({ over: [1, 2], maxIterations: 1 }), "data.steps.1.over: 2 iterations exceed"],
      ])(
        "a workflow with the step %j is refused with its field, and changes nothing",
        async (step, problem) => {
          const { request } = startRunner("s1").uplink
          const data = { steps: [command, step] }
          const refusal = (asked: Promise<unknown>) => asked.then(String, String)
          const fields = { slug: "w", name: "First", data: { steps: [command] } }
          expect(await refusal(request("workflow-sync", { ...fields, data }))).toContain(problem)
          expect((await request("workflow-list", {})).workflows).toEqual([])
          const { workflow } = await request("workflow-sync", fields)
          const sync = request("workflow-sync", { ...fields, name: "Second", data })
          expect(await refusal(sync)).toContain(problem)
          const payload = { workflowId: "w", name: "Third", data }
          const update = request("workflow-api", { action: "update", payload })
          expect(await refusal(update)).toContain(problem)
          const proposal = request("workflow-api", {
            action: "proposal-create",
            payload: {
              workflowId: "w",
              baseWorkflowHash: workflow["workflowHash"],
              proposal: data,
            },
          })
          expect(await refusal(proposal)).toContain(problem.replace("data", "proposal"))
          const read = await request("workflow-api", {
            action: "get",
            payload: { workflowId: "w" },
          })
          expect(read.data).toEqual({ workflow })
        },
      )

      test("the list of workflows has what each one is for and not its steps", async () => {
        const runner = startRunner("s1")
        const { request } = runner.uplink
        const steps = [
          { type: "bash", id: "a", command: "echo {{variables.what}}", outputVariable: "made" },
          { type: "bash", id: "b", command: "echo {{ variables.made }} {{outputs.a}}" },
          {
            type: "conditional",
            condition: { variable: "place", equals: "{{variables.what}}" },
            then: [
              {
                type: "loop",
                over: "birds",
                steps: [{ type: "agent", goal: "{{variables.item}}" }],
              },
            ],
          },
        ]
        const fields = { slug: "w", name: "W", description: "does it", data: { steps } }
        const { workflow } = await request("workflow-sync", fields)
        const { id } = await createTrigger(runner, {
          name: "on push",
          workflowId: "w",
          config: { type: "webhook" },
        })
        expect((await request("workflow-list", {})).workflows).toEqual([
          {
            id: workflow["id"],
            slug: "w",
            name: "W",
            description: "does it",
            enabled: true,
            triggers: [{ id, name: "on push", type: "webhook", enabled: true }],
            steps: 5,
            variables: ["birds", "place", "what"],
          },
        ])
      })
    })

    describe("a workflow that waits for an approval", () => {
      const token = "the-resume-token"
      const waiting = async (runner: FakeRunner): Promise<string> => {
        await syncWorkflow(runner)
        const { execution } = await runner.uplink.request("workflow-run", { workflowId: "nightly" })
        const executionId = String(execution["id"])
        const requiresApproval = {
          stepId: "ok",
          prompt: "Deploy?",
          items: ["a"],
          resumeToken: token,
        }
        const envelope = {
          ok: true,
          status: "needs_approval",
          executionId,
          requiresApproval,
        } as const
        runner.send({ type: "workflow-execution-result", executionId, envelope })
        return executionId
      }
      const approvalOf = (executionId: string) => ({
        id: `${executionId}/ok`,
        kind: "approval",
        channel: "web:default",
        status: "open",
        executionId,
        stepId: "ok",
        text: "Deploy?",
        items: ["a"],
      })
      const openIn = (client: TestClient) =>
        client.interactions().filter(({ status }) => status === "open")
      const read = async () => {
        const client = await connect("s1")
        return { open: openIn(client), state: client.state("approvals") }
      }

      test.each([
        [true, "running"],
        [false, "cancelled"],
      ])(
        "clients see it in the interactions and in the state until it is answered with %p, after a restart too",
        async (approve, status) => {
          const runner = startRunner("s1")
          const client = await connect("s1")
          const executionId = await waiting(runner)
          await client.until(() => openIn(client).length === 1, "the approval")
          expect(openIn(client)).toMatchObject([approvalOf(executionId)])
          expect(client.state("approvals")).toMatchObject([approvalOf(executionId)])
          await host.restart()
          const later = await connect("s1")
          expect(openIn(later)).toMatchObject([approvalOf(executionId)])
          expect(later.state("approvals")).toMatchObject([approvalOf(executionId)])
          expect(JSON.stringify(later.state("approvals"))).not.toContain(token)
          expect(JSON.stringify(openIn(later))).not.toContain(token)
          expect(
            await later.ask({ type: "approve-execution", executionId, approve }),
          ).toMatchObject({
            ok: true,
            status,
          })
          expect(await read()).toEqual({ open: [], state: undefined })
          await later.until(() => openIn(later).length === 0, "the event of its end")
          const [answered] = later.interactions()
          expect(answered).toMatchObject({ status: "answered", answer: approve })
          await later.until(() => !later.state("approvals"), "the state without it")
          await host.restart()
          expect(await read()).toEqual({ open: [], state: undefined })
        },
      )

      test("an approval of a cancelled run and of an ended session is not waited for any more", async () => {
        const runner = startRunner("s1")
        const client = await connect("s1")
        const executionId = await waiting(runner)
        await client.until(() => openIn(client).length === 1, "the approval")
        await runner.uplink.request("execution-api", {
          action: "cancel",
          payload: { executionId },
        })
        await client.until(() => openIn(client).length === 0, "the end of the first")
        await waiting(runner)
        await client.until(() => openIn(client).length === 1, "the second approval")
        await call("DELETE", "/sessions/s1")
        expect(await read()).toEqual({ open: [], state: undefined })
      })
    })

    describe("a workflow for another checkout", () => {
      test("a trigger cannot be run for another repository and says which tool can", async () => {
        const runner = startRunner("s1")
        const { id } = await createTrigger(runner, {
          name: "t",
          config: { type: "manual", prompt: "go" },
        })
        const payload = { triggerId: id, repoUrl: "https://github.com/birds/heron" }
        const refused = runner.uplink.request("trigger-api", { action: "run", payload })
        expect(await refused.then(String, String)).toContain("use run_workflow")
        expect(runner.prompts).toEqual([])
      })
    })

    describe("a notification", () => {
      test("a notification to a user is read by the user's sessions, one to a handle by its session only, and the clients of the sender see both", async () => {
        await createSession("s2", { handle: "ops" })
        await createSession("s3")
        const sender = startRunner("s1")
        const reader = startRunner("s2")
        const watcher = await connect("s1")
        await sender.uplink.request("mailbox-send", { toUserId: "ann", content: "for Ann" })
        await sender.uplink.request("mailbox-send", { toHandle: "@ops", content: "for ops" })
        const { messages } = await reader.uplink.request("mailbox-check", {})
        expect(messages).toMatchObject([
          { content: "for Ann", toUserId: "ann", fromSessionId: "s1" },
          { content: "for ops", toHandle: "@ops", fromSessionId: "s1" },
        ])
        expect((await sender.uplink.request("mailbox-check", {})).messages).toEqual([])
        const third = startRunner("s3")
        expect((await third.uplink.request("mailbox-check", {})).messages).toMatchObject([
          { content: "for Ann" },
        ])
        const nobody = sender.uplink.request("mailbox-send", { toHandle: "@none", content: "x" })
        expect(await nobody.then(String, String)).toContain("no session with the handle @none")
        const missing = sender.uplink.request("mailbox-send", { toSessionId: "s9", content: "x" })
        expect(await missing.then(String, String)).toContain("there is no session s9")
        const shown = () => (watcher.state("notifications") ?? []) as readonly object[]
        await watcher.until(() => shown().length === 2, "notifications")
        expect(shown()).toMatchObject([{ content: "for Ann" }, { content: "for ops" }])
      })

      test("a notification to a session is shown to its clients and read by that session only", async () => {
        await createSession("s2")
        await createSession("s3")
        const sender = startRunner("s1")
        const watcher = await connect("s2")
        await sender.uplink.request("mailbox-send", { toSessionId: "s2", content: "for s2" })
        await watcher.until(() => watcher.state("notifications") !== undefined, "notification")
        expect(watcher.state("notifications")).toMatchObject([
          { content: "for s2", fromSessionId: "s1" },
        ])
        const other = startRunner("s3")
        expect((await other.uplink.request("mailbox-check", {})).messages).toEqual([])
      })
    })

    describe("a pull request", () => {
      const checkout = "birds/heron"

      test("a pull request is opened, changed and read with its checks and reviews in the repository that the runner names", async () => {
        const { request } = startRunner("s1").uplink
        const opened = await request("create-pr", { branch: "fix", title: "Fix it", checkout })
        expect(opened).toMatchObject({ number: 1, title: "Fix it", state: "open" })
        const [pull] = github.repository(checkout).pulls
        expect(pull).toMatchObject({ base: { ref: "trunk" }, head: { ref: "fix" } })
        await request("update-pr", { prNumber: 1, title: "Better", labels: ["ready"], checkout })
        expect(pull).toMatchObject({ title: "Better", labels: [{ name: "ready" }] })
        const { data } = await request("inspect-pull-request", { prNumber: 1, checkout })
        expect(data).toMatchObject({
          title: "Better",
          checks: [{ name: "build", status: "completed", conclusion: "success" }],
          reviews: [{ user: "ann", state: "APPROVED" }],
          comments: [{ body: "comment on 1" }],
        })
      })

      test("a pull request whose response is lost is opened once", async () => {
        const { request } = startRunner("s1").uplink
        flaky.loseResponseOf("POST")
        const opened = await request("create-pr", { branch: "fix", title: "Fix it", checkout })
        expect(opened).toMatchObject({ number: 1 })
        expect(github.repository(checkout).pulls).toHaveLength(1)
      })

      test("a call that the git host fails once is repeated, and one that it refuses is not", async () => {
        const { request } = startRunner("s1").uplink
        flaky.loseResponseOf("GET")
        expect(await request("list-pull-requests", { checkout })).toMatchObject({ pulls: [] })
        const refused = request("inspect-pull-request", {
          prNumber: 9,
          owner: "birds",
          repo: "none",
        })
        expect(await refused.then(String, String)).toContain("the git host answered 404")
        // Details, files, comments and reviews, once each. The first refusal is the answer, and the others come after it.
        const calls = () => github.calls.filter((one) => one.includes("/repos/birds/none"))
        await untilTrue(() => calls().length >= 4, "all four calls")
        // The repeat of a later call comes after theirs: each waits for the same time.
        flaky.loseResponseOf("GET")
        await request("list-pull-requests", { checkout })
        expect(calls()).toHaveLength(4)
      })
    })

    describe("a change of a pull request", () => {
      const checkout = "birds/heron"
      const refusalOf = (request: Promise<unknown>) =>
        request.then(() => "the request was not refused", String)

      test("clients see a pull request that was opened, its new title and that it is closed", async () => {
        const { request } = startRunner("s1").uplink
        const client = await connect("s1")
        const shown = (title: string, status: string) =>
          client.until(
            () =>
              JSON.stringify(client.state("pr:1")) ===
              JSON.stringify({
                number: 1,
                title,
                url: "https://github.com/birds/heron/pull/1",
                status,
              }),
            `the pull request "${title}", ${status}`,
          )
        await request("create-pr", { branch: "fix", title: "Fix it", checkout })
        await shown("Fix it", "open")
        await request("update-pr", { prNumber: 1, title: "Better", checkout })
        await shown("Better", "open")
        await request("update-pr", { prNumber: 1, state: "closed", checkout })
        await shown("Better", "closed")
      })

      test("the git host gets the changed fields of a pull request and no others", async () => {
        const { request } = startRunner("s1").uplink
        await request("create-pr", { branch: "fix", title: "Fix it", checkout })
        const change = { title: "Better", body: "Why", state: "closed" }
        await request("update-pr", { prNumber: 1, ...change, labels: ["ready"], checkout })
        expect(github.changes.slice(1)).toEqual([
          { call: "PATCH /repos/birds/heron/pulls/1", fields: change },
          { call: "PUT /repos/birds/heron/issues/1/labels", fields: { labels: ["ready"] } },
        ])
        const labels = { prNumber: 1, labels: ["old"], checkout }
        expect(await request("update-pr", labels)).toMatchObject({ title: "Better" })
        expect(github.changes.slice(3).map(({ call: made }) => made)).toEqual([
          "PUT /repos/birds/heron/issues/1/labels",
        ])
      })

      test("a refused change of a pull request sets no labels, and refused labels say what was changed", async () => {
        const { request } = startRunner("s1").uplink
        const client = await connect("s1")
        await request("create-pr", { branch: "deleted", title: "Fix it", checkout })
        const reopen = { prNumber: 1, state: "open", labels: ["ready"], checkout }
        expect(await refusalOf(request("update-pr", reopen))).toContain(
          "the git host answered 422: Validation Failed: state cannot be changed. The deleted branch was deleted.",
        )
        const [pull] = github.repository(checkout).pulls
        expect(pull?.labels).toEqual([])
        const long = { prNumber: 1, title: "Better", labels: ["x".repeat(51)], checkout }
        expect(await refusalOf(request("update-pr", long))).toContain(
          "title: was changed. labels: were not changed: the git host answered 422: Validation Failed: name: invalid (Label)",
        )
        expect(pull).toMatchObject({ title: "Better", labels: [] })
        await client.until(
          () => JSON.stringify(client.state("pr:1")).includes("Better"),
          "the changed title",
        )
      })

      test("a pull request that the git host refuses to open is answered with its reasons", async () => {
        const { request } = startRunner("s1").uplink
        const same = { branch: "trunk", title: "Fix it", checkout }
        expect(await refusalOf(request("create-pr", same))).toContain(
          "the git host answered 422: Validation Failed: No commits between trunk and trunk",
        )
      })

      test("a branch with an open pull request is answered with that one, which keeps its title", async () => {
        const { request } = startRunner("s1").uplink
        const first = await request("create-pr", { branch: "fix", title: "Fix it", checkout })
        expect(first).not.toHaveProperty("existed")
        const second = await request("create-pr", { branch: "fix", title: "Other", checkout })
        expect(second).toMatchObject({ number: 1, title: "Fix it", existed: true })
        expect(github.repository(checkout).pulls).toHaveLength(1)
      })

      test("the repositories of another source than the hub's are refused", async () => {
        const { request } = startRunner("s1").uplink
        expect((await request("list-repos", { source: "github" })).repos).toHaveLength(1)
        expect(await refusalOf(request("list-repos", { source: "gitlab" }))).toContain(
          "source: this hub lists the repositories of github only",
        )
      })

      test("a pull request of a session without a repository is refused with what to do", async () => {
        const { request } = startRunner("s1").uplink
        const refusal = await refusalOf(request("create-pr", { branch: "fix", title: "Fix it" }))
        expect(refusal).toContain(
          "this session has no repository on a git host: the working directory has no git remote named origin",
        )
        expect(refusal).not.toContain("owner and repo")
        expect(await refusalOf(request("list-pull-requests", {}))).toContain(
          "Or give owner and repo",
        )
      })
    })

    describe("a runner with as many open requests as it may have", () => {
      const asked = Array.from({ length: 60 }, (_, index) => `held-${index}`)
      const ask = (runner: RawRunner) =>
        runner.send(...asked.map((requestId) => ({ type: "list-repos", requestId })))

      test("its pings are answered, a new connection of it is greeted, and it gets every result once", async () => {
        const release = flaky.hold()
        const first = await connectRawRunner(host.url, "s1", RUNNER_TOKEN)
        ask(first)
        await untilTrue(() => flaky.held() >= 32, "the open requests")
        first.sendText('{"type":"ping"}')
        await untilTrue(() => first.of("pong").length === 1, "the answer to a ping")
        const second = await connectRawRunner(host.url, "s1", RUNNER_TOKEN)
        await untilTrue(() => second.of("welcome").length === 1, "the greeting")
        // No more than it may have: the barrier is the greeting.
        expect(flaky.held()).toBe(32)
        ask(second)
        release()
        const results = () => second.of("list-repos-result")
        await untilTrue(() => results().length >= asked.length, "all results")
        const ids = results().map(({ requestId }) => String(requestId))
        expect(new Set(ids)).toEqual(new Set(asked))
        expect(ids).toHaveLength(asked.length)
        first.close()
        second.close()
      })
    })

    describe("a git host that is down", () => {
      const checkout = "birds/heron"

      test("a pull request is opened once when the git host is back, and the conversation says so", async () => {
        const { request } = startRunner("s1").uplink
        flaky.setDown(true)
        const fields = { branch: "later", title: "Later", checkout }
        const refused = await request("create-pr", fields).then(String, String)
        expect(refused).toContain("The hub tries again")
        expect(github.repository(checkout).pulls).toEqual([])
        await host.restart()
        flaky.setDown(false)
        const client = await connect("s1")
        await client.until(() => notesIn(client).length > 0, "note")
        expect(notesIn(client)).toEqual([
          'The pull request #1 "Later" is open after a retry: https://github.com/birds/heron/pull/1',
        ])
        expect(github.repository(checkout).pulls).toHaveLength(1)
        expect(client.state("pr:1")).toMatchObject({ number: 1, title: "Later", status: "open" })
      })

      test("a retry that finds another pull request of the branch says that it was not changed", async () => {
        const { request } = startRunner("s1").uplink
        github.openPull(checkout, "later", "Old")
        const client = await connect("s1")
        flaky.setDown(true)
        const asked = request("create-pr", { branch: "later", title: "New", checkout })
        expect(await asked.then(String, String)).toContain("The hub tries again")
        flaky.setDown(false)
        await client.until(() => notesIn(client).length > 0, "note")
        expect(notesIn(client)).toEqual([
          'The branch has the open pull request #1 "Old" already, which was found after a retry and not changed: https://github.com/birds/heron/pull/1',
        ])
        expect(client.state("pr:1")).toMatchObject({ title: "Old", status: "open" })
      })

      test("a change that the git host refuses when it is back ends with a note and is not repeated", async () => {
        const { request } = startRunner("s1").uplink
        const client = await connect("s1")
        flaky.setDown(true)
        const change = request("update-pr", { prNumber: 77, title: "x", checkout })
        expect(await change.then(String, String)).toContain("The hub tries again")
        flaky.setDown(false)
        await client.until(() => notesIn(client).length > 0, "note")
        expect(notesIn(client)).toEqual([
          "changing a pull request failed and is not tried again: the git host answered 404: Not Found",
        ])
      })
    })

    describe("a trigger", () => {
      test("a prompt of a trigger waits for the runner of its session and runs once", async () => {
        const first = startRunner("s1")
        const trigger = await createTrigger(first, {
          name: "t",
          config: { type: "webhook", prompt: "wake up" },
        })
        runners.splice(runners.indexOf(first), 1)
        await first.stop()
        await fire(trigger)
        await host.restart()
        const second = startRunner("s1")
        const client = await connect("s1")
        await client.until(
          () =>
            client.messages().some(({ role, status }) => role === "assistant" && status === "done"),
          "answer",
        )
        expect(second.prompts.map(({ content }) => content)).toEqual(["wake up"])
      })

      test("a variable whose path the data of a webhook does not have is an error that names the path, and nothing runs", async () => {
        const runner = startRunner("s1")
        await syncWorkflow(runner)
        const trigger = await createTrigger(runner, {
          name: "on push",
          workflowId: "nightly",
          config: { type: "webhook" },
          variableMapping: { who: "sender.login", times: 3 },
        })
        expect(await callHook(trigger, '{"sender":{}}')).toEqual({
          status: 422,
          body: {
            ok: false,
            error: {
              code: "http-422",
              message: `the trigger ${trigger.id} ran nothing: variableMapping.who: the data of the trigger has no "sender.login"`,
            },
          },
        })
        const executions = () => runner.uplink.request("workflow-executions", {})
        expect((await executions()).executions).toEqual([])
        const byHand = runner.uplink.request("trigger-api", {
          action: "run",
          payload: { triggerId: trigger.id },
        })
        expect(await byHand.then(String, String)).toContain("variableMapping.who")
        expect((await callHook(trigger, '{"sender":{"login":null}}')).status).toBe(202)
        expect(await executions()).toMatchObject({
          executions: [{ variables: { who: null, times: 3 } }],
        })
        await runner.uplink.request("trigger-api", {
          action: "run",
          payload: { triggerId: trigger.id, variables: { who: "ann" } },
        })
        expect((await executions()).executions).toHaveLength(2)
      })

      test("a schedule whose variables its data cannot have is refused when it is saved", async () => {
        const runner = startRunner("s1")
        await syncWorkflow(runner)
        const saved = createTrigger(runner, {
          name: "nightly",
          workflowId: "nightly",
          config: { type: "schedule", cron: "0 3 * * *" },
          variableMapping: { at: "scheduledFor", who: "sender.login" },
        })
        expect(await saved.then(String, String)).toContain(
          'variableMapping.who: the data of the trigger has no "sender.login"',
        )
        const listed = await runner.uplink.request("trigger-api", { action: "list" })
        expect(listed.data).toEqual({ triggers: [] })
      })

      test.each(["X-GitHub-Delivery", "Idempotency-Key"])(
        "a webhook that is delivered again with the same %s runs once and answers the same, after a restart too",
        async (header) => {
          const runner = startRunner("s1")
          await syncWorkflow(runner)
          const trigger = await createTrigger(runner, {
            name: "runs",
            workflowId: "nightly",
            config: { type: "webhook" },
            variableMapping: { who: "who" },
          })
          const deliver = (delivery: string, body = '{"who":"ann"}') =>
            callHook(trigger, body, { [header]: delivery })
          const answer = { status: 202, body: { ok: true } }
          const started = async () =>
            (await runner.uplink.request("workflow-executions", {})).executions.length
          // A delivery that ran nothing may be delivered again.
          expect((await deliver("one", "{}")).status).toBe(422)
          expect(await deliver("one")).toEqual(answer)
          expect(await deliver("one")).toEqual(answer)
          expect(await deliver("one", "{}")).toEqual(answer)
          expect(await started()).toBe(1)
          await host.restart()
          expect(await deliver("one")).toEqual(answer)
          expect(
            await callHook({ ...trigger, secret: "wrong" }, "{}", { [header]: "one" }),
          ).toMatchObject({ status: 401 })
          expect(await started()).toBe(1)
          expect(await deliver("two")).toEqual(answer)
          expect(await started()).toBe(2)
        },
      )

      test("a refused call of a webhook has the error body of the other routes, and it says what to do", async () => {
        const runner = startRunner("s1")
        const trigger = await createTrigger(runner, {
          name: "prompts",
          config: { type: "webhook", prompt: "wake up" },
        })
        const refusalOf = async (called: Created, body?: string) => {
          const { status, body: answer } = await callHook(called, body)
          return {
            status,
            ...(answer as { ok: boolean; error: { code: string; message: string } }),
          }
        }
        const wrong = await refusalOf({ ...trigger, secret: "wrong" })
        expect(wrong).toMatchObject({ status: 401, ok: false, error: { code: "http-401" } })
        expect(wrong.error.message).toBe(
          `the secret of the trigger ${trigger.id} is missing or wrong: send it as "Authorization: Bearer SECRET"`,
        )
        const missing = await refusalOf({ ...trigger, id: "none" })
        expect(missing).toMatchObject({ status: 404, ok: false, error: { code: "http-404" } })
        expect(missing.error.message).toContain("there is no enabled webhook trigger none")
        const large = await refusalOf(trigger, "x".repeat(1024 * 1024 + 1))
        expect(large).toMatchObject({ status: 413, ok: false, error: { code: "http-413" } })
        expect(runner.prompts).toEqual([])
      })

      test("a trigger of an ended session ends with a note in its conversation, and its workflow run is failed", async () => {
        const runner = startRunner("s1")
        const { workflow } = await syncWorkflow(runner)
        const prompts = await createTrigger(runner, {
          name: "prompts",
          config: { type: "webhook", prompt: "wake up" },
        })
        const runs = await createTrigger(runner, {
          name: "runs",
          workflowId: String(workflow["id"]),
          config: { type: "webhook" },
        })
        await call("DELETE", "/sessions/s1")
        await fire(prompts)
        await fire(runs)
        const client = await connect("s1")
        await client.until(() => notesIn(client).length === 2, "two notes")
        expect(notesIn(client)).toEqual([
          "a prompt of a trigger or a session failed and is not tried again: the session has ended",
          "starting a workflow failed and is not tried again: the session has ended",
        ])
        await createSession("s2")
        const other = startRunner("s2")
        const { executions } = await other.uplink.request("workflow-executions", {})
        expect(executions).toMatchObject([{ status: "failed", error: "the session has ended" }])
      })
    })
  })
}

interface FlakyApi {
  readonly url: string
  /** The next call with this method is carried out, and its response is 502. */
  readonly loseResponseOf: (method: string) => void
  /** While it is down, every call gets 503 and is not carried out. */
  readonly setDown: (isDown: boolean) => void
  /** Calls wait until the returned function is called. */
  readonly hold: () => () => void
  /** How many calls wait. */
  readonly held: () => number
  readonly stop: () => Promise<void>
}

/** A proxy in front of the git host that loses a response. */
const startFlakyApi = (target: string): FlakyApi => {
  let lost: string | undefined
  let down = false
  let gate = Promise.resolve()
  let waiting = 0
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const { method, headers } = request
      if (down) return Response.json({ message: "Unavailable" }, { status: 503 })
      waiting += 1
      await gate
      waiting -= 1
      const body = method === "GET" ? undefined : await request.text()
      const response = await fetch(`${target}${pathname}${search}`, {
        method,
        headers,
        ...(body !== undefined && { body }),
      })
      if (method !== lost) return response
      lost = undefined
      return Response.json({ message: "Bad Gateway" }, { status: 502 })
    },
  })
  return {
    url: server.url.origin,
    setDown: (isDown) => {
      down = isDown
    },
    loseResponseOf: (method) => {
      lost = method
    },
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      gate = promise
      return resolve
    },
    held: () => waiting,
    stop: () => server.stop(true),
  }
}
