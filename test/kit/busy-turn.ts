/** Starts a turn and resolves while its tool call, which takes the given seconds, is running. */
import { reply, type ScriptedModel, text, tool } from "./model.ts"
import type { TestSessionAgent } from "./session-agent.ts"

export const startBusyTurn = async (
  { agent, model }: { readonly agent: TestSessionAgent; readonly model: ScriptedModel },
  messageId: string,
  seconds: number,
): Promise<void> => {
  model.on(messageId, [
    reply(tool("bash", { command: `sleep ${seconds}; echo slept`, description: "works" })),
    text(`${messageId} is done`),
  ])
  agent.say({ type: "prompt", messageId, content: `@@${messageId}@@` })
  await agent.frame(
    "message.part.tool-update",
    (frame) => frame.messageId === messageId && frame.status === "running",
  )
}
