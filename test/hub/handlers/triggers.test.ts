/** Schedule triggers on a hub with a manual clock. */
import { expect, onTestFinished, test } from "bun:test"
import { createManualClock } from "../../kit/clock.ts"
import { startTestLocalHub } from "../kit/local-hub.ts"
import { untilTrue } from "../../kit/until-true.ts"

test("a schedule fires when it is due, once for all missed times, and not while it is disabled", async () => {
  const clock = createManualClock(Date.parse("2026-11-16T11:59:30Z"))
  const { hub, runner, stop } = await startTestLocalHub({ clock })
  onTestFinished(stop)
  const request = (action: "create" | "update", payload: Record<string, unknown>) =>
    runner.uplink.request("trigger-api", { action, payload })
  const { data } = await request("create", {
    name: "every hour",
    config: { type: "schedule", cron: "0 * * * *", prompt: "what is new?" },
  })
  const { trigger } = data as { trigger: { id: string; nextAt: number } }
  expect(trigger.nextAt).toBe(Date.parse("2026-11-16T12:00:00Z"))
  clock.advance(29_000)
  expect(runner.prompts).toEqual([])
  clock.advance(2000)
  await untilTrue(() => runner.prompts.length === 1, "prompt")
  expect(runner.prompts[0]).toMatchObject({
    content: "what is new?",
    messageId: `${trigger.id}@${trigger.nextAt}`,
  })
  await untilTrue(() => hub.find("s1")?.status().working === 0, "end of the turn")
  clock.advance(3_600_000)
  await untilTrue(() => runner.prompts.length === 2, "next prompt")
  await untilTrue(() => hub.find("s1")?.status().working === 0, "end of the next turn")
  await request("update", { triggerId: trigger.id, enabled: false })
  // It is due at 14:30, after the disabled one, and its prompt would come after that of the disabled one.
  await request("create", {
    name: "after it",
    config: { type: "schedule", cron: "30 14 * * *", prompt: "and now?" },
  })
  clock.advance(7_200_000)
  await untilTrue(
    () => runner.prompts.some(({ content }) => content === "and now?"),
    "prompt of the later trigger",
  )
  await untilTrue(() => {
    const { working, queued } = hub.find("s1")?.status() ?? {}
    return working === 0 && queued === 0
  }, "empty queue")
  expect(runner.prompts.map(({ content }) => content)).toEqual([
    "what is new?",
    "what is new?",
    "and now?",
  ])
})

test("an invalid trigger is refused with the name of the field and is not stored", async () => {
  const { runner, stop } = await startTestLocalHub()
  onTestFinished(stop)
  const create = (config: Record<string, unknown>) =>
    runner.uplink.request("trigger-api", { action: "create", payload: { name: "t", config } })
  expect(create({ type: "schedule", cron: "nonsense", prompt: "x" })).rejects.toThrow("config.cron")
  expect(
    create({ type: "schedule", cron: "0 * * * *", timezone: "Mars/Olympus", prompt: "x" }),
  ).rejects.toThrow("config.cron")
  expect(create({ type: "schedule", cron: "0 0 31 2 *", prompt: "x" })).rejects.toThrow(
    'config.cron: "0 0 31 2 *" matches no date',
  )
  expect(create({ type: "manual" })).rejects.toThrow("needs a workflow")
  expect(create({ type: "unheard-of" })).rejects.toThrow("config.type")
  const { data } = await runner.uplink.request("trigger-api", { action: "list" })
  expect(data).toEqual({ triggers: [] })
})

test("a schedule whose workflow is disabled says so in the conversation, and other schedules fire", async () => {
  const clock = createManualClock(Date.parse("2026-11-16T11:59:30Z"))
  const { hub, runner, stop } = await startTestLocalHub({ clock })
  onTestFinished(stop)
  const { request } = runner.uplink
  const data = { steps: [{ type: "bash", command: "true" }] }
  await request("workflow-sync", { slug: "w", name: "W", data })
  const create = async (fields: object) => {
    const config = { type: "schedule", cron: "0 * * * *", prompt: "what is new?" }
    const payload = { name: "every hour", config, ...fields }
    const { data: created } = await request("trigger-api", { action: "create", payload })
    return (created as { trigger: { id: string } }).trigger.id
  }
  const id = await create({ workflowId: "w" })
  await create({})
  const payload = { workflowId: "w", enabled: false }
  await request("workflow-api", { action: "update", payload })
  clock.advance(31_000)
  await untilTrue(() => runner.prompts.length === 1, "prompt of the other schedule")
  const texts = () => JSON.stringify(hub.find("s1")?.recent(10))
  await untilTrue(() => texts().includes("the workflow w is disabled"), texts)
  expect(texts()).toContain(`the trigger ${id} ran nothing`)
})
