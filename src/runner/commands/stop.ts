/** `stop`: the runner shuts down, in order; that the link ends is the answer. */
import type { Verb } from "./command.ts"

export const stop: Verb<"stop"> = (ports) => ports.stop()
