/** What tools and triggers cause at the far end, on every host: the contract of the hub's effects. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { RequestFields, RequestResult } from "../../src/wire/frames/index.ts"
import type { ContractHost } from "./contract.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./kit/fake-runner.ts"
import { RUNNER_TOKEN } from "./kit/hub.ts"

export type EffectsHost = Pick<ContractHost, "url" | "clientToken" | "restart" | "stop">

interface Created {
  readonly id: string
  readonly secret: string
}

export const testEffects = (name: string, start: () => Promise<EffectsHost>): void => {
  let host: EffectsHost
  let folder: string
  const runners: FakeRunner[] = []
  const clients: TestClient[] = []

  const call = (method: string, path: string, body?: object) =>
    fetch(`${host.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${host.clientToken}` },
      ...(body && { body: JSON.stringify(body) }),
    })
  const createSession = async (session: string) =>
    expect((await call("PUT", `/sessions/${session}`, { runnerToken: RUNNER_TOKEN })).status).toBe(
      201,
    )
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
  const fire = async ({ id, secret }: Created) => {
    const response = await fetch(`${host.url}/hooks/${id}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${secret}` },
      body: "{}",
    })
    expect(response.status).toBe(202)
  }
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
      host = await start()
      await createSession("s1")
    })
    afterEach(async () => {
      for (const client of clients.splice(0)) client.close()
      await Promise.all(runners.splice(0).map((runner) => runner.stop()))
      await host.stop()
      await rm(folder, { recursive: true, force: true })
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
