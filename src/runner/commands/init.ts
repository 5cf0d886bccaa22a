/** `init`: the session agent is there and knows nothing yet; it is told how things stand. */
import type { Command } from "./command.ts"

export const init: Command<"init"> = ({ reportState }) => reportState()
