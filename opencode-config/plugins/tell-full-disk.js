/**
 * Tells the model that the disk of the sandbox is full: what a command shows of it is only that it was ended. The fleet says it in a file
 * that the agent cannot write.
 */
import { readFile } from "node:fs/promises"

const file = process.env.SANDBOX_DISK_FILE

const advice = async () => {
  if (!file) return undefined
  try {
    const report = JSON.parse(await readFile(file, "utf8"))
    return typeof report.advice === "string" ? report.advice : undefined
  } catch {
    // It is written after the first measurement.
    return undefined
  }
}

export const TellFullDisk = async () => ({
  "tool.execute.after": async (call, result) => {
    if (call.tool !== "bash" || typeof result.output !== "string") return
    const text = await advice()
    if (text) result.output += `\n\n<sandbox_disk>\n${text}\n</sandbox_disk>`
  },
})
