/** Operations that wait for a person: the yes, the no, the end of the turn, the timeout and the limit. */
import { describe, expect, test } from "bun:test"
import { type ApprovalQuestion, createApprovals } from "../../../src/runner/gateway/approvals.ts"
import { createManualClock } from "../../kit/clock.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { API_TOKEN, startTestGateway } from "./kit.ts"
import { failureOf } from "../../kit/failure-of.ts"

const start = (messageId?: string) => {
  const clock = createManualClock(0)
  const asked: ApprovalQuestion[] = []
  let ids = 0
  const approvals = createApprovals({
    actions: new Set(["paint"]),
    ask: (question) => {
      asked.push(question)
      return messageId
    },
    newId: () => String((ids += 1)),
    clock,
  })
  const wait = () => approvals.wait({ action: "paint", input: {}, sessionId: undefined })
  return { approvals, asked, clock, wait }
}

describe("an operation that needs an approval", () => {
  test("an operation that needs an approval is carried out after a yes, and refused after a no", async () => {
    const { approvals, asked, wait } = start()
    expect(approvals.needs("paint")).toBe(true)
    expect(approvals.needs("look")).toBe(false)
    const first = wait()
    expect(approvals.reply(asked[0]?.permissionId ?? "", "once")).toBe(true)
    expect(await first).toBeUndefined()
    const second = wait()
    approvals.reply(asked[1]?.permissionId ?? "", "reject")
    expect(await failureOf(second)).toContain("a person has denied it")
    expect(approvals.reply(asked[1]?.permissionId ?? "", "once")).toBe(false)
    expect(approvals.needs("paint")).toBe(true)
  })

  test("an operation needs no more approvals after the reply always", async () => {
    const { approvals, asked, wait } = start()
    const first = wait()
    approvals.reply(asked[0]?.permissionId ?? "", "always")
    await first
    expect(approvals.needs("paint")).toBe(false)
  })

  test("an operation that needs an approval is refused when its turn ends and when there is no answer for 15 minutes", async () => {
    const { approvals, asked, clock, wait } = start("m1")
    const first = wait()
    expect(asked[0]?.waitMs).toBe(15 * 60_000)
    approvals.promptEnded("other")
    approvals.promptEnded("m1")
    expect(await failureOf(first)).toContain("the turn has ended")
    const second = wait()
    clock.advance(15 * 60_000)
    expect(await failureOf(second)).toContain("no answer within 15 minutes")
  })

  test("an operation that needs an approval is refused when 20 others wait already", async () => {
    const { wait } = start()
    for (let index = 0; index < 20; index += 1) void wait()
    expect(await failureOf(wait())).toContain("20 actions wait")
  })

  test("an approval holds a tool's call over HTTP until the reply, and gives a program an id to poll", async () => {
    const asked: ApprovalQuestion[] = []
    const approvals = createApprovals({
      actions: new Set(["register-tunnel"]),
      ask: (question) => void asked.push(question),
      newId: () => crypto.randomUUID(),
      clock: createManualClock(0),
    })
    const gateway = startTestGateway({ approvals })
    const headers = { authorization: `Bearer ${API_TOKEN}`, "content-type": "application/json" }
    const register = (name: string, more: Record<string, string> = {}) =>
      fetch(`${gateway.url}/api/tunnels`, {
        method: "POST",
        headers: { ...headers, ...more },
        body: JSON.stringify({ name, port: 4999 }),
      })
    const tunnels = async () =>
      (
        (await (await fetch(`${gateway.url}/api/tunnels`, { headers })).json()) as {
          tunnels: { name: string }[]
        }
      ).tunnels.map(({ name }) => name)
    const call = register("held")
    await untilTrue(() => asked.length === 1, "the question")
    expect(asked[0]?.input).toMatchObject({ name: "held" })
    expect(await tunnels()).toEqual([])
    approvals.reply(asked[0]?.permissionId ?? "", "once")
    expect((await call).status).toBe(200)
    expect(await tunnels()).toEqual(["held"])
    const begun = await register("polled", { prefer: "respond-async" })
    expect(begun.status).toBe(202)
    const { approval } = (await begun.json()) as { approval: string }
    const poll = async () =>
      (await fetch(`${gateway.url}/api/approvals/${approval}`, { headers })).json()
    expect(await poll()).toEqual({ status: "waiting" })
    approvals.reply(asked[1]?.permissionId ?? "", "reject")
    expect(await poll()).toMatchObject({ status: "done", reply: { status: 403 } })
    expect(await tunnels()).toEqual(["held"])
    expect((await fetch(`${gateway.url}/api/approvals/none`, { headers })).status).toBe(404)
    await gateway.stop()
  })
})
