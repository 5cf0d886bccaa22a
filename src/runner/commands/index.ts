/** Dispatches the commands of the session agent. The table is total: a command without a handler does not compile. */
import { describeError } from "../../lib/log.ts"
import type { CommandFrame, Inbound } from "../../wire/frames/index.ts"
import { abort } from "./abort.ts"
import { answer } from "./answer.ts"
import { diff } from "./diff.ts"
import { gitCredentials } from "./git-credentials.ts"
import { init } from "./init.ts"
import { newSession } from "./new-session.ts"
import { opencodeCommand } from "./opencode-command.ts"
import { opencodeConfig } from "./opencode-config.ts"
import { permissionReply } from "./permission-reply.ts"
import { prompt } from "./prompt.ts"
import { revert } from "./revert.ts"
import { review } from "./review.ts"
import { stop } from "./stop.ts"
import { tunnelDelete } from "./tunnel-delete.ts"
import type { CommandContext, Command } from "./command.ts"
import { workflowExecute } from "./workflow-execute.ts"

/** Frames that the link handles itself; they do not arrive here. */
type LinkFrame = "pong" | "welcome" | "ack"
type CommandName = Exclude<CommandFrame["type"], LinkFrame>

const commands: { readonly [Name in CommandName]: Command<Name> } = {
  abort,
  answer,
  diff,
  "git-credentials": gitCredentials,
  init,
  "new-session": newSession,
  "opencode-command": opencodeCommand,
  "opencode-config": opencodeConfig,
  "permission-reply": permissionReply,
  prompt,
  revert,
  review,
  stop,
  "tunnel-delete": tunnelDelete,
  "workflow-execute": workflowExecute,
}

/** Every frame is handled as soon as it arrives, so that an abort or an answer does not wait for queued prompts. */
export const createCommandHandler =
  (ports: CommandContext) =>
  (frame: CommandFrame): void => {
    if (!isCommand(frame)) return
    const run: (ports: CommandContext, frame: never) => void | Promise<void> = commands[frame.type]
    const failed = (error: unknown) =>
      ports.log.error("command.failed", { type: frame.type, error: describeError(error) })
    try {
      void Promise.resolve(run(ports, frame as never)).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

const isCommand = (frame: CommandFrame): frame is Inbound<CommandName> =>
  Object.hasOwn(commands, frame.type)
