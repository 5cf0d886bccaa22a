import { expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startTestSessionAgent } from "../kit/session-agent.ts"

test("100,000 frames created while the session agent is down are all delivered in order, with less than 150 MB", async () => {
  let isUp = false
  const agent = startTestSessionAgent({ refuse: () => (isUp ? undefined : 503) })
  const stateDir = await mkdtemp(join(tmpdir(), "absence-"))
  const count = 100_000
  const program = join(import.meta.dir, "../kit/offline-runner.ts")
  const runner = Bun.spawn(
    [process.execPath, program, agent.url, agent.token, stateDir, String(count)],
    {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    },
  )
  const output = runner.stdout.pipeThrough(new TextDecoderStream()).getReader()
  expect((await output.read()).value).toBe("queued\n")
  expect(agent.frames).toHaveLength(0)
  isUp = true
  await agent.until(() => agent.frames.length >= count, `${count} frames`)
  const calls = agent.frames.flatMap((frame) => ("callId" in frame ? [frame.callId] : []))
  expect(calls.every((call, index) => call === `call_${index}`)).toBeTrue()
  expect(calls).toHaveLength(count)
  expect(agent.problems).toEqual([])
  const peakMb = Number((await output.read()).value)
  expect(peakMb).toBeGreaterThan(20)
  expect(peakMb).toBeLessThan(150)
  expect(await runner.exited).toBe(0)
  await agent.stop()
  await rm(stateDir, { recursive: true, force: true })
})
