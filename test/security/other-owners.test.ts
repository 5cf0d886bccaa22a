/** A runner's token reaches the workflows and triggers of its own owner only, and cannot stall the hub with a schedule. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { hashOf } from "../../src/hub/keys.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startTestLocalHub, type TestLocalHub } from "../hub/kit/local-hub.ts"
import { untilTrue } from "../kit/until-true.ts"
import { startStopwatch } from "../kit/stopwatch.ts"

let setup: TestLocalHub
let eve: FakeRunner
let trigger: { readonly id: string; readonly secret: string; readonly path: string }

const refusalOf = (pending: Promise<unknown>): Promise<string> =>
  pending.then(
    () => "it was done",
    (error: unknown) => String(error),
  )

beforeAll(async () => {
  setup = await startTestLocalHub()
  setup.hub.create("eves", "user:eve").setRunnerToken(await hashOf(RUNNER_TOKEN))
  eve = startFakeRunner({
    url: setup.hub.runnerUrl("eves"),
    token: RUNNER_TOKEN,
    stateDir: join(setup.folder, "eve"),
  })
  const { uplink } = setup.runner
  await uplink.request("workflow-sync", {
    name: "deploy",
    data: { steps: [{ type: "bash", command: "echo good" }] },
  })
  const made = (await uplink.request("trigger-api", {
    action: "create",
    payload: { name: "door", config: { type: "webhook", prompt: "ring" } },
  })) as { data: { trigger: typeof trigger } }
  trigger = made.data.trigger
})
afterAll(async () => {
  await eve.stop()
  await setup.stop()
})

const ring = (secret: string) =>
  fetch(`${setup.hub.url}${trigger.path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${secret}` },
    body: "{}",
  })

test("a runner of another owner cannot rewrite a workflow: its own of the same name is another one", async () => {
  await eve.uplink.request("workflow-sync", {
    name: "deploy",
    data: { steps: [{ type: "bash", command: "echo evil" }] },
  })
  const { workflows } = await setup.runner.uplink.request("workflow-list", {})
  expect(workflows).toHaveLength(1)
  expect(JSON.stringify(workflows)).not.toContain("evil")
  await setup.runner.uplink.request("workflow-run", { workflowId: "deploy" })
  const orders = () => setup.runner.frames.filter(({ type }) => type === "workflow-execute")
  await untilTrue(() => orders().length > 0, "the order")
  expect(JSON.stringify(orders())).toContain("echo good")
})

test("a runner of another owner can neither fire a trigger nor replace its secret nor delete it", async () => {
  const attempt = (action: "run" | "update" | "delete", more: object = {}) =>
    refusalOf(
      eve.uplink.request("trigger-api", { action, payload: { triggerId: trigger.id, ...more } }),
    )
  expect(await attempt("run")).toContain("there is no trigger")
  const config = { type: "webhook", prompt: "rm -rf", secret: "known-to-eve-0123456789" }
  expect(await attempt("update", { config })).toContain("there is no trigger")
  expect(await attempt("delete")).toContain("there is no trigger")
  expect((await ring("known-to-eve-0123456789")).status).toBe(401)
  expect((await ring(trigger.secret)).status).toBe(202)
})

test("fifty schedules for a date that never comes are refused in less than a quarter of a second each", async () => {
  for (let count = 0; count < 50; count += 1) {
    const config = { type: "schedule", cron: "0 0 31 2 *", prompt: "x" }
    const workedMs = startStopwatch()
    const refused = await refusalOf(
      eve.uplink.request("trigger-api", { action: "create", payload: { name: "never", config } }),
    )
    expect(refused).toContain("matches no date")
    expect(workedMs()).toBeLessThan(250)
  }
})
