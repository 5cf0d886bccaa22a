/** A runner with a valid token that sends its requests without waiting, while another owner prompts. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startTarget, type Target } from "./kit/target.ts"

const COUNT = 2000
/** Without turns of other work it is one or two. */
const LEAST_PROMPTS = 20

let folder: string
let target: Target<{ readonly port: number }>
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "attack-flood-"))
  target = await startTarget("hub.ts", folder)
})
afterAll(async () => {
  await target.stop()
  await rm(folder, { recursive: true, force: true })
})

test(`while a runner's ${COUNT} requests are handled, another owner's prompts are answered, and each request is answered once and in the order of its frames`, async () => {
  const url = `http://127.0.0.1:${target.facts.port}`
  const headers = { authorization: `Bearer ${CLIENT_TOKEN}` }
  await fetch(`${url}/sessions/other`, {
    method: "PUT",
    headers,
    body: JSON.stringify({ owner: "user:alice" }),
  })
  const socket = new WebSocket(
    `${url.replace("http", "ws")}/sessions/s1/ws?role=runner&token=${RUNNER_TOKEN}`,
  )
  const opened = Promise.withResolvers<void>()
  const done = Promise.withResolvers<void>()
  const answered: string[] = []
  let isDone = false
  socket.addEventListener("open", () => opened.resolve())
  socket.addEventListener("close", () => done.reject(new Error("the hub closed the connection")))
  socket.addEventListener("message", ({ data }) => {
    const frame = JSON.parse(String(data)) as { readonly type: string; readonly requestId?: string }
    if (frame.type !== "mailbox-send-result") return
    answered.push(frame.requestId ?? "")
    if (answered.length < COUNT) return
    isDone = true
    done.resolve()
  })
  await opened.promise
  socket.send(
    JSON.stringify({
      type: "hello",
      protocol: 2,
      runner: { name: "hostile", version: "0" },
      sessionId: "s1",
      epoch: "e1",
      nextSeq: 1,
      active: [],
    }),
  )
  const ids = Array.from({ length: COUNT }, (_, index) => `r${index + 1}`)
  for (const [index, requestId] of ids.entries())
    socket.send(
      JSON.stringify({
        type: "mailbox-send",
        requestId,
        toSessionId: "s1",
        content: "spam",
        seq: index + 1,
      }),
    )
  let prompts = 0
  while (!isDone) {
    const response = await fetch(`${url}/sessions/other/prompt`, {
      method: "POST",
      headers,
      body: JSON.stringify({ content: "hello", channelType: "web", channelId: `c${prompts}` }),
    })
    await response.arrayBuffer()
    if (!isDone) prompts += 1
  }
  await done.promise
  expect(answered).toEqual(ids)
  expect(prompts).toBeGreaterThan(LEAST_PROMPTS)
})
