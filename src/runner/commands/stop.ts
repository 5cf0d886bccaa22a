/** `stop`: shuts the runner down. There is no reply: the link closes. */
import type { Command } from "./command.ts"

export const stop: Command<"stop"> = (ports) => ports.stop()
