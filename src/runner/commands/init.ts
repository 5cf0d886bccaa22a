/** `init`: the session agent is there and knows nothing yet; it is told how things stand. */
import type { Verb } from "./command.ts"

export const init: Verb<"init"> = ({ reportState }) => reportState()
