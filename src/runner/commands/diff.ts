/** `diff`: sends the agent's changes in all conversations of this session as unified patches. */
import { describeError } from "../../lib/log.ts"
import { changedFiles } from "./changed-files.ts"
import type { Command } from "./command.ts"

export const diff: Command<"diff"> = async (ports, { requestId }) => {
  try {
    const files = await changedFiles(ports)
    ports.send({ type: "diff", requestId, data: { files: [...files] } })
  } catch (error) {
    const reason = describeError(error)
    ports.send({ type: "diff", requestId, data: { files: [] }, error: reason })
  }
}
