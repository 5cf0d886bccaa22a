/** `review`: lets the model review the changes in a separate conversation and sends its findings, or an error. */
import { describeError } from "../../lib/log.ts"
import { changedFiles } from "./changed-files.ts"
import { readFindings, reviewPrompt, retryPrompt, toReview } from "./review-text.ts"
import type { Command } from "./command.ts"

export const review: Command<"review"> = async (ports, { requestId }) => {
  const { channels, send } = ports
  try {
    const files = await changedFiles(ports)
    const diffFiles = files.map(({ path, status, diff }) => ({ path, status, diff }))
    if (files.length === 0) {
      const data = toReview([], { overallSummary: "There are no changes to review.", files: [] })
      return send({ type: "review-result", requestId, data, diffFiles })
    }
    const found = await channels.converse("Review of the changes", async (ask) => {
      const first = readFindings(await ask(reviewPrompt(files)))
      return first.ok ? first : readFindings(await ask(retryPrompt(first.problem)))
    })
    if (!found.ok) throw new Error(`the model's review could not be parsed: ${found.problem}`)
    send({ type: "review-result", requestId, data: toReview(files, found.findings), diffFiles })
  } catch (error) {
    send({ type: "review-result", requestId, error: describeError(error) })
  }
}
