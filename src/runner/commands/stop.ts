/** `stop`: the runner shuts down, in order; that the link ends is the answer. */
import type { Command } from "./command.ts"

export const stop: Command<"stop"> = (ports) => ports.stop()
