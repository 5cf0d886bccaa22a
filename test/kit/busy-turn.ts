/** Turns with a running tool call. */
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { reply, type ScriptedModel, text, tool } from "./model.ts"
import type { TestSessionAgent } from "./session-agent.ts"

interface Parts {
  readonly agent: TestSessionAgent
  readonly model: ScriptedModel
}

const startTurn = async ({ agent, model }: Parts, messageId: string, command: string) => {
  model.on(messageId, [
    reply(tool("bash", { command, description: "works" })),
    text(`${messageId} is done`),
  ])
  agent.say({ type: "prompt", messageId, content: `@@${messageId}@@` })
  await agent.frame(
    "message.part.tool-update",
    (frame) => frame.messageId === messageId && frame.status === "running",
  )
}

/** Resolves while its tool call, which takes the given seconds, is running. */
export const startBusyTurn = (parts: Parts, messageId: string, seconds: number): Promise<void> =>
  startTurn(parts, messageId, `sleep ${seconds}; echo slept`)

/** Resolves while its tool call is running. The call ends when the returned function is called. */
export const startHeldTurn = async (
  parts: Parts,
  messageId: string,
  { root }: { readonly root: string },
): Promise<() => Promise<void>> => {
  const gate = join(root, `gate-of-${messageId}`)
  await startTurn(parts, messageId, `until [ -e ${gate} ]; do sleep 0.1; done; echo slept`)
  return () => writeFile(gate, "")
}
