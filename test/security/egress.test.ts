/** An agent under an egress policy: its connections to other hosts are refused, and the user sees it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Conversation, leaveEmpty, startConversation } from "../kit/conversation.ts"
import { reply, text, tool } from "../kit/model.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation(
    { SANDBOX_EGRESS: "allow-list", SANDBOX_EGRESS_HOSTS: "allowed.invalid" },
    { furnish: leaveEmpty },
  )
})
afterAll(() => c.stop())

const bash = async (id: string, command: string): Promise<string> => {
  c.model.on(id, [reply(tool("bash", { command, description: "x" })), text("done")])
  c.say(id, `@@${id}@@`)
  const update = await c.agent.frame(
    "message.part.tool-update",
    (frame) => frame.messageId === id && frame.status === "completed",
  )
  await c.agent.frame("complete", ({ messageId }) => messageId === id)
  return String(update.result)
}

test("a connection of the agent to a host outside the list is refused with the reason, in the conversation and in the log", async () => {
  const curl =
    "curl -sS -i --max-time 5 http://evil.invalid/; curl -sS --max-time 5 https://evil.invalid/"
  const result = await bash("refused", curl)
  expect(result).toContain("403 Forbidden")
  expect(result).toContain("SANDBOX_EGRESS_HOSTS")
  const notices = c.agent.frames.flatMap((frame) =>
    frame.type === "workflow-chat-message" ? [frame] : [],
  )
  expect(notices.map(({ role }) => role)).toEqual(["system"])
  expect(notices[0]?.content).toContain("refused a connection of the agent to evil.invalid:80")
  expect(c.runner.log.join("\n")).toContain("egress.refused")
})

test("a turn, the model and the agent's tools work under an egress policy with a list that does not name them", async () => {
  expect(await bash("fine", "curl -sS -o /dev/null -w '%{http_code}' $SANDPIPER_URL/health")).toBe(
    "200",
  )
  const allowed = await bash("allowed", "curl -sS -i --max-time 5 http://allowed.invalid/ || true")
  expect(allowed).toContain("allowed.invalid has no address outside this machine")
})
