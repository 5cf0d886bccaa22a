/** `opencode-command`: undo, redo and compact are built in; any other command is OpenCode's and runs as a turn. */
import { describeError } from "../../lib/log.ts"
import { addressOf } from "../../wire/channel.ts"
import type { ReadyAgent } from "../channels/channels.ts"
import { parseModel } from "../opencode/config/models.ts"
import type { Command } from "./command.ts"
import { revertSafely, type SnapshotStore } from "./revert-safely.ts"

type BuiltInCommand = (
  agent: ReadyAgent,
  agentSessionId: string,
  signal: AbortSignal,
  snapshots: SnapshotStore,
) => Promise<string>

const undo: BuiltInCommand = async ({ client }, agentSessionId, _signal, snapshots) => {
  const { revertedTo } = await client.readSession(agentSessionId)
  const messages = await client.messages(agentSessionId)
  const prompts = messages.map(({ message }) => message).filter(({ role }) => role === "user")
  // Reverted prompts stay in the list until the next prompt.
  const reverted = revertedTo === undefined ? -1 : prompts.findIndex(({ id }) => id === revertedTo)
  const last = reverted === -1 ? prompts.at(-1) : prompts[reverted - 1]
  if (!last) throw new Error("there is nothing to undo")
  const { filesKept } = await revertSafely(snapshots, client, agentSessionId, last.id)
  return filesKept
    ? "the last prompt was undone; its file changes stay, because the workspace is not a git repository"
    : "the last prompt was undone"
}

const redo: BuiltInCommand = async ({ client }, agentSessionId) => {
  const { revertedTo } = await client.readSession(agentSessionId)
  if (revertedTo === undefined) throw new Error("there is nothing to redo")
  await client.unrevert(agentSessionId)
  return "the undone prompts were restored"
}

const compact: BuiltInCommand = async ({ client, defaultModel }, agentSessionId, signal) => {
  const model = parseModel(defaultModel ?? "")
  if (!model) throw new Error("compacting needs a default model: configure one")
  try {
    await client.summarize(agentSessionId, model, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    // The model keeps running after the call is canceled and would collide with the next prompt.
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
        if (agentSessionId === undefined)
          throw new Error("this channel has no conversation yet: send a prompt first")
        return run(agent, agentSessionId, signal, ports.snapshots)
      },
    )
    send({ type: "command-result", requestId, command: frame.command, result })
  } catch (error) {
    const reason = describeError(error)
    send({ type: "command-result", requestId, command: frame.command, error: reason })
  }
}
