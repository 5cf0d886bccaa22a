/** `opencode-command`: undo, redo and compact are the runner's own; any other is OpenCode's, and runs as a turn. */
import { describeError } from "../../lib/log.ts"
import { addressOf } from "../../wire/channel.ts"
import type { ReadyAgent } from "../channels/channels.ts"
import { parseModel } from "../opencode/config/models.ts"
import type { Command } from "./command.ts"

type BuiltInCommand = (
  agent: ReadyAgent,
  agentSessionId: string,
  signal: AbortSignal,
) => Promise<string>

const undo: BuiltInCommand = async ({ client }, agentSessionId) => {
  const { revertedTo } = await client.readSession(agentSessionId)
  const messages = await client.messages(agentSessionId)
  const asked = messages.map(({ message }) => message).filter(({ role }) => role === "user")
  // What is taken back already stays in the list until the next prompt.
  const from = revertedTo === undefined ? -1 : asked.findIndex(({ id }) => id === revertedTo)
  const last = from === -1 ? asked.at(-1) : asked[from - 1]
  if (!last) throw new Error("there is nothing to undo")
  await client.revert(agentSessionId, last.id)
  return "the last prompt was taken back"
}

const redo: BuiltInCommand = async ({ client }, agentSessionId) => {
  const { revertedTo } = await client.readSession(agentSessionId)
  if (revertedTo === undefined) throw new Error("there is nothing to redo")
  await client.unrevert(agentSessionId)
  return "what was taken back is there again"
}

const compact: BuiltInCommand = async ({ client, defaultModel }, agentSessionId, signal) => {
  const model = parseModel(defaultModel ?? "")
  if (!model) throw new Error("no model is known to compact with")
  try {
    await client.summarize(agentSessionId, model, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    // The model writes on behind a call that was given up, and would be in the next prompt's way.
    await client.abort(agentSessionId)
    throw signal.reason
  }
  return "the conversation was compacted"
}

const builtInCommands: Readonly<Record<string, BuiltInCommand>> = {
  undo,
  redo,
  compact,
  summarize: compact,
}

export const opencodeCommand: Command<"opencode-command"> = async (ports, frame) => {
  const { channels, send } = ports
  const { requestId } = frame
  const command = frame.command.replace(/^\//, "")
  const run = Object.hasOwn(builtInCommands, command) ? builtInCommands[command] : undefined
  if (!run) return channels.take({ ...frame, command })
  try {
    const result = await channels.runExclusively(
      addressOf(frame),
      async (agent, agentSessionId, signal) => {
        if (agentSessionId === undefined) throw new Error("this channel has no conversation yet")
        return run(agent, agentSessionId, signal)
      },
    )
    send({ type: "command-result", requestId, command: frame.command, result })
  } catch (error) {
    const reason = describeError(error)
    send({ type: "command-result", requestId, command: frame.command, error: reason })
  }
}
