/** `init`: the session agent has connected and needs the current state. */
import type { Command } from "./command.ts"

export const init: Command<"init"> = ({ reportState }) => reportState()
