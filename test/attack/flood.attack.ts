/** A runner with a valid token that sends its frames without waiting, while another owner prompts. On both hosts, each a process of its own. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { connectRawRunner } from "../hub/kit/raw-runner.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"
import { startTarget } from "./kit/target.ts"

interface House {
  readonly url: string
  readonly clientToken: string
  readonly stop: () => Promise<void>
}

const startBun = async (folder: string): Promise<House> => {
  const { facts, stop } = await startTarget<{ readonly port: number }>("hub.ts", folder)
  return { url: `http://127.0.0.1:${facts.port}`, clientToken: CLIENT_TOKEN, stop }
}
const startDurable = async (): Promise<House> => startWorkerd(await bundleWorker())

// Each request is four commits to the disk on workerd, which waits for them.
describe.each([
  { name: "bun:sqlite", start: startBun, requests: 1000 },
  { name: "Durable Objects", start: startDurable, requests: 200 },
])("the hub on $name", ({ start, requests }) => {
  let folder: string
  let house: House
  const put = (session: string, body: object) =>
    fetch(`${house.url}/sessions/${session}`, {
      method: "PUT",
      headers: { authorization: `Bearer ${house.clientToken}` },
      body: JSON.stringify(body),
    })
  /** Prompts as another owner until all is `handled`. The result is the most that was handled while one of them waited. */
  const mostDuringPrompt = async (handled: () => number, all: number): Promise<number> => {
    let most = 0
    while (handled() < all) {
      const before = handled()
      const response = await fetch(`${house.url}/sessions/other/prompt`, {
        method: "POST",
        headers: { authorization: `Bearer ${house.clientToken}` },
        body: JSON.stringify({
          content: "hello",
          channelType: "web",
          channelId: crypto.randomUUID(),
        }),
      })
      await response.arrayBuffer()
      most = Math.max(most, handled() - before)
    }
    return most
  }
  const flooder = async (session: string) => {
    await put(session, { runnerToken: RUNNER_TOKEN })
    const runner = await connectRawRunner(house.url, session, RUNNER_TOKEN)
    const alive = (): void => {
      if (runner.closed() !== undefined) throw new Error(`the hub closed: ${runner.closed()}`)
    }
    return { runner, alive }
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "attack-flood-"))
    house = await start(folder)
    await put("other", { owner: "user:alice" })
  })
  afterAll(async () => {
    await house.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test("while hundreds of a runner's requests are handled, another owner's prompts are answered, and each request is answered once", async () => {
    const { runner, alive } = await flooder("requests")
    const ids = Array.from({ length: requests }, (_, index) => `r${index + 1}`)
    const spam = { type: "mailbox-send", toSessionId: "requests", content: "spam" }
    runner.send(...ids.map((requestId) => ({ ...spam, requestId })))
    const answered = () => runner.of("mailbox-send-result")
    const most = await mostDuringPrompt(() => {
      alive()
      return answered().length
    }, ids.length)
    expect(answered().map(({ requestId }) => requestId)).toEqual(ids)
    expect(most).toBeLessThan(ids.length / 5)
    runner.close()
  })

  test("while a runner's 10,000 frames are handled, another owner's prompts are answered, and each frame is acknowledged", async () => {
    const { runner, alive } = await flooder("frames")
    const frames = Array.from({ length: 10_000 }, (_, index) => index)
    runner.send(
      ...frames.map((index) => ({ type: "agentStatus", status: "thinking", detail: `f${index}` })),
    )
    const most = await mostDuringPrompt(() => {
      alive()
      return Number(runner.of("ack").at(-1)?.["seq"] ?? 0)
    }, frames.length)
    expect(most).toBeLessThan(frames.length / 5)
    runner.close()
  })
})
