/** Requests of a person that reach the runner while OpenCode still starts, as after a wake. */
import { expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"
import { holdOpenCode } from "../kit/held-opencode.ts"
import { startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, scriptedConfig, startRunner } from "../kit/runner.ts"
import { startTestSessionAgent } from "../kit/session-agent.ts"

test("a diff and a review that come while OpenCode starts are answered when it is ready", async () => {
  const model = await startScriptedModel()
  const review = { overallSummary: "A bird.", files: [] }
  model.on(/Review the following changes/, [text(JSON.stringify(review))])
  const agent = startTestSessionAgent({ config: scriptedConfig(model) })
  const sandbox = await createSandbox(agent)
  const held = await holdOpenCode(sandbox)
  await execa("git", ["init", "--quiet"], { cwd: sandbox.workDir })
  await writeFile(join(sandbox.workDir, "seen.txt"), "knot\n")
  const runner = await startRunner(agent, { OPENCODE_BIN: held.program }, { in: sandbox })
  try {
    await held.asked()
    agent.say({ type: "diff", requestId: "d" })
    agent.say({ type: "review", requestId: "r" })
    // Its reply needs no OpenCode: the runner has taken both requests before it.
    const from = agent.frames.length
    agent.say({ type: "tunnel-delete", name: "nosuch" })
    await agent.frame("tunnels", undefined, from)
    expect(agent.frames.filter(({ type }) => type === "diff" || type === "review-result")).toEqual(
      [],
    )
    await held.release()
    const diff = await agent.frame("diff")
    expect(diff.error).toBeUndefined()
    expect(diff.data.files.map(({ path }) => path)).toEqual(["seen.txt"])
    const reviewed = await agent.frame("review-result")
    expect(reviewed.error).toBeUndefined()
    expect(reviewed.data).toMatchObject({ overallSummary: "A bird." })
  } finally {
    await runner.stop()
    await agent.stop()
    await model.stop()
  }
})
