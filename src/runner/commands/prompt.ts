/** `prompt`: queued on its channel, or joined to the turn at work when it steers. Its turn is the answer. */
import type { Command } from "./command.ts"

export const prompt: Command<"prompt"> = ({ channels }, frame) => channels.take(frame)
