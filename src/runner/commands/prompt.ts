/** `prompt`: queues the prompt on its channel, or joins the running turn if it steers. */
import type { Command } from "./command.ts"

export const prompt: Command<"prompt"> = ({ channels }, frame) => channels.take(frame)
