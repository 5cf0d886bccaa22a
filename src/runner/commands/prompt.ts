/** `prompt`: queued on its channel, or joined to the turn at work when it steers. Its turn is the answer. */
import type { Verb } from "./command.ts"

export const prompt: Verb<"prompt"> = ({ channels }, frame) => channels.take(frame)
