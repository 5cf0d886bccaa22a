/** What the session agent may say, and who does it. The map is total: a verb without an entry does not compile. */
import { describeError } from "../../lib/log.ts"
import type { CommandFrame, Inbound } from "../../wire/frames/index.ts"
import { abort } from "./abort.ts"
import { answer } from "./answer.ts"
import { diff } from "./diff.ts"
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

/** Frames about the link itself end in the uplink and never come here. */
type LinkFrame = "pong" | "welcome" | "ack"
type CommandName = Exclude<CommandFrame["type"], LinkFrame>

const commands: { readonly [Name in CommandName]: Command<Name> } = {
  abort,
  answer,
  diff,
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

/** Each frame is taken up as it comes, so that an abort or an answer overtakes the prompts that wait in a queue. */
export const createCommandHandler =
  (ports: CommandContext) =>
  (frame: CommandFrame): void => {
    if (!isCommand(frame)) return
    const run: (ports: CommandContext, frame: never) => void | Promise<void> = commands[frame.type]
    const failed = (error: unknown) =>
      ports.log.error("inbound.failed", { type: frame.type, error: describeError(error) })
    try {
      void Promise.resolve(run(ports, frame as never)).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

const isCommand = (frame: CommandFrame): frame is Inbound<CommandName> =>
  Object.hasOwn(commands, frame.type)
