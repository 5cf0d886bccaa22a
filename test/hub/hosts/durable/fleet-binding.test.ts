/**
 * Durable Objects on workerd with the fleet as the service binding FLEET: prompts, and workflows in a repository. The tests share both,
 * and a session whose first prompt is answered.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { ServedFleet } from "../../../../src/cli/serve-fleet.ts"
import { openSqliteStore } from "../../../../src/fleet/store/sqlite-store.ts"
import { runnerProvider, type RunnerProvider } from "../../../fleet/kit/runner-provider.ts"
import { FLEET_KEY, serveFleet } from "../../../fleet/kit/served-fleet.ts"
import { connectClient, type TestClient } from "../../kit/client.ts"
import { freePort } from "../../../kit/free-port.ts"
import { untilTrue } from "../../../kit/until-true.ts"
import { bundleWorker, startWorkerd, type Workerd } from "../../kit/workerd.ts"

const LONG_MS = 40_000
let workerd: Workerd
let provider: RunnerProvider
let fleet: ServedFleet
let client: TestClient
/** The sessions that had a sandbox when the first prompt was answered. */
let started: readonly string[]

beforeAll(async () => {
  const port = freePort()
  workerd = await startWorkerd(
    await bundleWorker(),
    { FLEET_KEY, HUB_GATEWAY_SECRET: "a gateway secret of the tests" },
    { services: { FLEET: `127.0.0.1:${port}` } },
  )
  provider = runnerProvider()
  fleet = await serveFleet({
    hubUrl: workerd.url,
    port,
    provider,
    store: openSqliteStore(":memory:"),
  })
  const headers = { Authorization: `Bearer ${workerd.clientToken}` }
  await fetch(`${workerd.url}/sessions/bound`, { method: "PUT", headers, body: "{}" })
  client = await connectClient(workerd.url, workerd.clientToken, { session: "bound" })
  await fetch(`${workerd.url}/sessions/bound/prompt`, {
    method: "POST",
    headers,
    body: JSON.stringify({ content: "hello" }),
  })
  await heard("assistant", "heard: hello")
  started = provider.specs.map(({ session }) => session)
})
afterAll(async () => {
  client?.close()
  await provider?.stop()
  await fleet?.stop()
  await workerd?.stop()
})

const heard = (role: string, part: string) =>
  client.until(
    () =>
      client
        .messages()
        .some(
          (message) =>
            message.role === role &&
            message.parts.some(({ text }) => text?.includes(part) === true),
        ),
    `${role}: ${part}`,
    LONG_MS,
  )

test("a prompt reaches the fleet through the binding, without FLEET_URL, and a sandbox answers it", async () => {
  await heard("assistant", "heard: hello")
  expect(started).toEqual(["bound"])
})

test("a workflow with a repository runs in a sandbox of its own that has it, and the session gets its end", async () => {
  const { request } = provider.runnerOf("bound")?.uplink ?? {}
  if (!request) throw new Error("the session has no runner")
  const data = { steps: [{ id: "one", type: "bash", command: "true" }] }
  await request("workflow-sync", { slug: "build", name: "build", data })
  const { execution } = await request("workflow-run", {
    workflowId: "build",
    repoUrl: "https://github.com/birds/heron",
    branch: "nest",
  })
  const child = String(execution["sessionId"])
  expect(child).not.toBe("bound")
  await untilTrue(() => provider.runnerOf(child) !== undefined, "runner of the workflow", LONG_MS)
  expect(provider.specs.find(({ session }) => session === child)?.environment).toMatchObject({
    PARENT_SESSION_ID: "bound",
    REPO_URL: "https://github.com/birds/heron",
    REPO_BRANCH: "nest",
  })
  const runner = provider.runnerOf(child)
  const orders = () =>
    runner?.frames.flatMap((one) => (one.type === "workflow-execute" ? [one] : [])) ?? []
  await untilTrue(() => orders().length === 1, "order of the workflow", LONG_MS)
  const executionId = orders()[0]?.executionId ?? ""
  expect(executionId).toBe(String(execution["id"]))
  runner?.send({
    type: "workflow-execution-result",
    executionId,
    envelope: { ok: true, status: "ok", executionId, output: "built" },
  })
  await heard("user", `The workflow run ${executionId} has ended: ok.`)
  await untilTrue(() => provider.runnerOf(child) === undefined, "end of its sandbox", LONG_MS)
})
