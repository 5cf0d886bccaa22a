/** What every host of the session agent does: the same sentences, held by each against the real runner's uplink. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./kit/fake-runner.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { until } from "./kit/until.ts"

export interface ContractHost {
  /** Of its HTTP address. */
  readonly url: string
  readonly clientToken: string
  /** Whatever a host may do at any time between two frames without being noticed. */
  readonly disturb: () => Promise<void>
  /** Dies and comes back with what it has written. */
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
}

const TOKEN = "runner-token-of-the-tests"

export const holdContract = (name: string, start: () => Promise<ContractHost>): void => {
  let host: ContractHost
  let folder: string
  const runners: FakeRunner[] = []
  const clients: TestClient[] = []

  const put = (session: string, body: object) =>
    fetch(`${host.url}/sessions/${session}`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${host.clientToken}` },
      body: JSON.stringify(body),
    })
  const post = (verb: string, body: object, token = host.clientToken) =>
    fetch(`${host.url}/sessions/s1/${verb}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    })
  const runner = (options: Partial<FakeRunnerOptions> = {}): FakeRunner => {
    const started = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/s1/ws`,
      token: TOKEN,
      stateDir: join(folder, `runner`),
      answer: ({ content }) => content.split(/(?<= )/),
      eager: true,
      ...options,
    })
    runners.push(started)
    return started
  }
  const client = async (options: Parameters<typeof connectClient>[2] = {}): Promise<TestClient> => {
    const connected = await connectClient(host.url, host.clientToken, options)
    clients.push(connected)
    return connected
  }

  describe(name, () => {
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), "contract-"))
      host = await start()
      expect((await put("s1", { runnerToken: TOKEN })).status).toBe(201)
    })
    afterEach(async () => {
      for (const one of clients.splice(0)) one.close()
      await Promise.all(runners.splice(0).map((one) => one.stop()))
      await host.stop()
      await rm(folder, { recursive: true, force: true })
    })

    describe("a runner at the door", () => {
      const knock = async (session: string, token: string) => {
        const url = `${host.url}/sessions/${session}/ws?role=runner&token=${token}`
        return (
          await fetch(url, {
            headers: {
              upgrade: "websocket",
              connection: "upgrade",
              "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
              "sec-websocket-version": "13",
            },
          })
        ).status
      }
      test("is told to wait while its session has no token", async () => {
        await put("s2", {})
        expect(await knock("s2", TOKEN)).toBe(503)
      })
      test("is refused with a wrong token, and with none", async () => {
        expect(await knock("s1", "wrong")).toBe(401)
        expect(await knock("s1", "")).toBe(401)
      })
      test("is refused by a session that is not there", async () => {
        expect(await knock("nobody", TOKEN)).toBe(404)
      })
      test("is configured, and replaces the one that was there", async () => {
        const first = runner()
        await until(
          () => first.frames.some(({ type }) => type === "opencode-config"),
          "configuration",
        )
        expect(first.frames.map(({ type }) => type).slice(0, 2)).toEqual([
          "init",
          "opencode-config",
        ])
        runner({ stateDir: join(folder, "second") })
        await host.disturb()
        await until(() => first.endings.length > 0, "end of the first runner")
        expect(first.endings).toEqual(["another runner has connected to this session"])
      })
    })

    describe("a prompt", () => {
      test("is answered, and every client sees the same words", async () => {
        const [one, two] = [await client(), await client()]
        runner()
        const reply = await one.ask({ type: "prompt", content: "say these words 👋 to me" })
        const id = String(reply["messageId"])
        await one.until(() => one.queue().length === 0 && one.messages().length === 2, "answer")
        await two.until(
          () =>
            two.messages().some(({ status, role }) => role === "assistant" && status === "done"),
          "answer",
        )
        for (const each of [one, two]) {
          expect(each.answerTo(id)).toBe("say these words 👋 to me")
          expect(each.messages().map(({ role }) => role)).toEqual(["user", "assistant"])
          expect(each.gaps()).toBe(0)
        }
      })

      test("typed while the runner is away runs when it comes, once", async () => {
        const one = await client()
        await one.ask({ type: "prompt", content: "later" })
        await host.disturb()
        const late = runner()
        await one.until(
          () =>
            one.messages().some(({ status, role }) => role === "assistant" && status === "done"),
          "answer",
        )
        expect(late.prompts).toHaveLength(1)
      })

      test("is the same prompt when its clientRequestId comes again, and none when it stands for another", async () => {
        const one = await client()
        const first = await one.ask({ type: "prompt", content: "a", clientRequestId: "r1" })
        await host.disturb()
        const again = await one.ask({ type: "prompt", content: "a", clientRequestId: "r1" })
        expect(again).toMatchObject({ ok: true, messageId: first["messageId"], fresh: false })
        expect(
          await one.ask({ type: "prompt", content: "b", clientRequestId: "r1" }),
        ).toMatchObject({
          ok: false,
          error: { code: "conflict" },
        })
        expect(one.queue()).toHaveLength(1)
      })

      test("waits for the one before it in its channel, and for none in another", async () => {
        const one = await client()
        const lazy = runner({ eager: false })
        await one.ask({ type: "prompt", content: "a1" })
        await one.ask({ type: "prompt", content: "a2" })
        await one.ask({ type: "prompt", content: "b1", channelType: "chat", channelId: "7" })
        await until(() => lazy.prompts.length === 2, "two prompts")
        expect(lazy.prompts.map(({ content }) => content)).toEqual(["a1", "b1"])
        lazy.work(100)
        await until(() => lazy.prompts.length === 3, "the third")
        expect(lazy.prompts[2]?.content).toBe("a2")
      })

      test("is given to nobody before the runner is idle", async () => {
        const one = await client()
        await one.ask({ type: "prompt", content: "patience" })
        const busy = runner({ answer: () => [], eager: false })
        busy.send({ type: "agentStatus", status: "thinking", detail: "starting" })
        await until(() => busy.frames.some(({ type }) => type === "abort"), "barrier")
        await until(() => busy.prompts.length === 1, "prompt after idle")
      })

      test("is withdrawn before it is begun, promoted, and neither after", async () => {
        const one = await client()
        const lazy = runner({ eager: false })
        const a = await one.ask({ type: "prompt", content: "a" })
        await until(() => lazy.prompts.length === 1, "first prompt")
        const b = await one.ask({ type: "prompt", content: "b" })
        const c = await one.ask({ type: "prompt", content: "c" })
        const d = await one.ask({ type: "prompt", content: "d" })
        expect(await one.ask({ type: "withdraw", id: b["messageId"] })).toMatchObject({ ok: true })
        expect(await one.ask({ type: "promote", id: d["messageId"] })).toMatchObject({ ok: true })
        expect(await one.ask({ type: "withdraw", id: a["messageId"] })).toMatchObject({
          error: { code: "too-late" },
        })
        expect(await one.ask({ type: "promote", id: "no-such" })).toMatchObject({
          error: { code: "not-found" },
        })
        for (const count of [2, 3]) {
          lazy.work(100)
          await until(() => lazy.prompts.length === count, `prompt ${count}`)
        }
        expect(lazy.prompts.map(({ content }) => content)).toEqual(["a", "d", "c"])
        void c
      })
    })

    describe("a stop", () => {
      test("ends the turn as canceled and the next prompt goes on", async () => {
        const one = await client()
        const lazy = runner({ eager: false })
        const { messageId } = await one.ask({ type: "prompt", content: "one two three" })
        await until(() => lazy.busy() === 1, "turn")
        lazy.work(1)
        await one.ask({ type: "prompt", content: "next" })
        expect(await one.ask({ type: "abort" })).toMatchObject({ ok: true, stopping: 1 })
        await until(() => lazy.prompts.length === 2, "next prompt")
        await one.until(
          () =>
            one
              .messages()
              .some((message) => message.promptId === messageId && message.status === "canceled"),
          "canceled message",
        )
        expect(one.answerTo(String(messageId))).toBe("one ")
      })
      test("with nothing to stop is answered too", async () => {
        const one = await client()
        expect(await one.ask({ type: "abort" })).toMatchObject({ ok: true, stopping: 0 })
      })
    })

    describe("a question", () => {
      test("is answered by the first client and by no other", async () => {
        const [one, two] = [await client(), await client()]
        const lazy = runner({ eager: false })
        const { messageId } = await one.ask({ type: "prompt", content: "ask me" })
        await until(() => lazy.busy() === 1, "turn")
        lazy.send({
          type: "question",
          questionId: "q1",
          text: "Which?",
          options: ["a", "b"],
          messageId: String(messageId),
          channelType: "web",
          channelId: "default",
        })
        await two.until(() => two.events.some(({ type }) => type === "interaction"), "question")
        await host.disturb()
        expect(await two.ask({ type: "answer", id: "q1", answer: "b" })).toMatchObject({ ok: true })
        expect(await one.ask({ type: "answer", id: "q1", answer: "a" })).toMatchObject({
          error: { code: "too-late" },
        })
        expect(await one.ask({ type: "answer", id: "q9", answer: "a" })).toMatchObject({
          error: { code: "not-found" },
        })
        await until(() => lazy.frames.some(({ type }) => type === "answer"), "answer at the runner")
        expect(lazy.frames.filter(({ type }) => type === "answer")).toEqual([
          { type: "answer", questionId: "q1", answer: "b" },
        ])
      })
    })

    describe("a client that slept", () => {
      test("reads only what it missed", async () => {
        const one = await client()
        const lazy = runner({
          eager: false,
          answer: () => Array.from({ length: 100 }, (_, index) => `${index} `),
        })
        const { messageId } = await one.ask({ type: "prompt", content: "count" })
        await until(() => lazy.busy() === 1, "turn")
        lazy.work(40)
        await one.until(() => one.answerTo(String(messageId)).endsWith("39 "), "forty words")
        await Bun.sleep(300)
        const before = one.cursor()
        one.close()
        lazy.work(60)
        const two = await client({ from: one })
        await two.until(
          () =>
            two.messages().some(({ role, status }) => role === "assistant" && status === "done"),
          "end",
        )
        const whole = Array.from({ length: 100 }, (_, index) => `${index} `).join("")
        expect(two.answerTo(String(messageId))).toBe(whole)
        expect(two.gaps()).toBe(0)
        expect(two.events[0]).toMatchObject({ type: "changes", from: before })
        expect(JSON.stringify(two.events)).not.toContain("12 13 14")
      })
      test("with a cursor that was never given out gets a snapshot", async () => {
        const one = await client({ cursor: 999_999 })
        expect(one.events[0]).toMatchObject({ type: "snapshot" })
      })
    })

    describe("over plain HTTP", () => {
      test("a prompt is queued and the answer comes as server-sent events", async () => {
        runner()
        const stream = await fetch(`${host.url}/sessions/s1/events?token=${host.clientToken}`)
        expect(stream.headers.get("content-type")).toBe("text/event-stream")
        const reply = (await (await post("prompt", { content: "hello there" })).json()) as {
          ok: boolean
        }
        expect(reply.ok).toBeTrue()
        let text = ""
        const decoder = new TextDecoder()
        for await (const chunk of stream.body ?? []) {
          text += decoder.decode(chunk, { stream: true })
          if (/"status":"done".*"role":"assistant"|"role":"assistant".*"status":"done"/.test(text))
            break
        }
        expect(text).toContain("hello ")
        expect(text).toMatch(/^id: \d+\ndata: \{"type":"snapshot"/)
      })
      test("bad input is named and changes nothing", async () => {
        const bad = await post("prompt", { content: "" })
        expect(bad.status).toBe(400)
        expect(await bad.json()).toMatchObject({ error: { message: "content: must not be empty" } })
        expect((await post("no-such-verb", {})).status).toBe(400)
        expect((await post("diff", {})).status).toBe(503)
        const snapshot = await fetch(`${host.url}/sessions/s1?token=${host.clientToken}`)
        expect(await snapshot.json()).toMatchObject({ queue: [], messages: [] })
      })
      test("nobody comes in without the token, or from a page elsewhere", async () => {
        expect((await post("prompt", { content: "x" }, "wrong")).status).toBe(401)
        expect((await fetch(`${host.url}/sessions`)).status).toBe(401)
        expect((await fetch(`${host.url}/anything`)).status).toBe(404)
        const elsewhere = await fetch(`${host.url}/sessions/s1?token=${host.clientToken}`, {
          headers: { origin: "https://evil.example" },
        })
        expect(elsewhere.status).toBe(403)
      })
    })

    describe("a request of the runner", () => {
      test("is answered, once more when it comes again, and carried out once", async () => {
        const asking = runner()
        const { memory } = await asking.uplink.request("memory-write", {
          content: "herons wade",
          category: "birds",
        })
        expect(memory).toMatchObject({ category: "birds", sessionId: "s1" })
        await host.disturb()
        const twice = {
          type: "memory-write",
          requestId: "twice",
          content: "swifts sleep in the air",
          category: "birds",
        } as const
        asking.send(twice)
        asking.send(twice)
        const { memories } = await asking.uplink.request("memory-read", { category: "birds" })
        await until(() => memories.length > 0, "memories")
        const all = await asking.uplink.request("memory-read", { query: "swift" })
        expect(all.memories).toHaveLength(1)
      })
      test("reaches other sessions, and is refused in words where there are none", async () => {
        await put("s2", {})
        const asking = runner()
        await asking.uplink.request("session-message", { targetSessionId: "s2", content: "hello" })
        expect(
          await asking.uplink.request("get-session-status", { targetSessionId: "s2" }),
        ).toMatchObject({
          sessionStatus: { id: "s2", queued: 1 },
        })
        expect(
          asking.uplink.request("get-session-status", { targetSessionId: "s9" }),
        ).rejects.toThrow("there is no session s9")
        const listed = await fetch(`${host.url}/sessions?token=${host.clientToken}`)
        expect(JSON.stringify(await listed.json())).toContain('"s2"')
      })
      test("runs a workflow on the runner that asked", async () => {
        const asking = runner()
        await asking.uplink.request("workflow-sync", {
          name: "W",
          data: { steps: [{ type: "bash", command: "true" }] },
        })
        const { execution } = await asking.uplink.request("workflow-run", { workflowId: "w" })
        await until(
          () =>
            asking.frames.some(
              (frame) => frame.type === "workflow-execute" && frame.executionId === execution["id"],
            ),
          "order",
        )
      })
    })

    describe("while the host sleeps and dies in between", () => {
      test("a turn that is disturbed at every few words arrives exact", async () => {
        const one = await client()
        const words = Array.from({ length: 60 }, (_, index) => `w${index}👋 `)
        const lazy = runner({ eager: false, answer: () => words.flatMap((word) => word.split("")) })
        const { messageId } = await one.ask({ type: "prompt", content: "go" })
        await until(() => lazy.busy() === 1, "turn")
        while (lazy.busy() > 0) {
          lazy.work(40)
          await Bun.sleep(5)
          await host.disturb()
        }
        const two = await client()
        await two.until(
          () =>
            two.messages().some(({ role, status }) => role === "assistant" && status === "done"),
          "end",
        )
        expect(two.answerTo(String(messageId))).toBe(words.join(""))
      })

      test("a restart in mid-turn loses nothing and runs nothing twice", async () => {
        const one = await client()
        const words = Array.from({ length: 200 }, (_, index) => `${index} `)
        const lazy = runner({ eager: false, answer: () => words })
        const { messageId } = await one.ask({ type: "prompt", content: "go" })
        await one.ask({ type: "prompt", content: "then this" })
        await until(() => lazy.busy() === 1, "turn")
        lazy.work(100)
        await Bun.sleep(20)
        await host.restart()
        lazy.work(100)
        const two = await client()
        await two.until(
          () =>
            two.messages().some(({ role, status }) => role === "assistant" && status === "done"),
          "end",
        )
        expect(two.answerTo(String(messageId))).toBe(words.join(""))
        await until(() => lazy.prompts.length === 2, "the second prompt")
        lazy.work(200)
        await two.until(() => two.queue().length === 0, "empty queue")
        expect(new Set(lazy.prompts.map((prompt) => prompt.messageId)).size).toBe(2)
        expect(lazy.prompts).toHaveLength(2)
      })
    })
  })
}
