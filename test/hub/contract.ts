/** What every host of the session agent does: the same sentences, held by each against the real runner's uplink. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./kit/fake-runner.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { openUntilClosed } from "./kit/close-frame.ts"
import { until } from "./kit/until.ts"
import { startTcpProxy, type TcpProxy } from "../kit/tcp-proxy.ts"

export interface ContractHost {
  /** Of its HTTP address. */
  readonly url: string
  readonly clientToken: string
  /** Whatever a host may do at any time between two frames without being noticed. */
  readonly disturb: () => Promise<void>
  /** Dies and comes back with what it has written. */
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
  /** How many blobs lie with the first session, as somebody sees it who looks at the disk. */
  readonly blobs: () => number
}

const TOKEN = "runner-token-of-the-tests"

export const holdContract = (name: string, start: () => Promise<ContractHost>): void => {
  let host: ContractHost
  let folder: string
  const runners: FakeRunner[] = []
  const clients: TestClient[] = []
  const wires: TcpProxy[] = []

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
      await Promise.all(wires.splice(0).map((one) => one.stop()))
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
      test("is closed with 1000 and the reason when another one comes", async () => {
        const address = `${host.url.replace(/^http/, "ws")}/sessions/s1/ws?role=runner&token=${TOKEN}`
        const first = await openUntilClosed(address)
        runner()
        const clientOfIt = await client()
        await clientOfIt.until(() => clientOfIt.state("runner") !== undefined, "second runner")
        // Not disturbed in between: workerd does not evict an object while one of its sockets is closing.
        expect(await first.closed).toBe("1000 Replaced by new runner connection")
        first.end()
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

    describe("what a client asks of the runner", () => {
      /** The frame that the runner gets of it, and the event that the client gets of the answer. */
      const asking = async (
        message: Record<string, unknown>,
        frame: Record<string, unknown>,
        answer: (requestId: string) => Parameters<FakeRunner["send"]>[0],
      ) => {
        const one = await client()
        const lazy = runner({ eager: false })
        await one.until(() => one.state("agent") !== undefined, "runner")
        const { requestId } = await one.ask(message)
        await host.disturb()
        await until(
          () => lazy.frames.some((got) => "requestId" in got && got.requestId === requestId),
          "question at the runner",
        )
        expect(
          lazy.frames.find((got) => "requestId" in got && got.requestId === requestId),
        ).toMatchObject(frame)
        lazy.send(answer(String(requestId)))
        const found = () =>
          one.events.find((event) => event["requestId"] === requestId && event["type"] === "answer")
        await one.until(() => found() !== undefined, "answer")
        return found()
      }

      test("a command is run, and its result comes as an event", async () => {
        expect(
          await asking(
            { type: "command", command: "compact", args: "now" },
            { type: "opencode-command", command: "compact", args: "now" },
            (requestId) => ({
              type: "command-result",
              requestId,
              command: "compact",
              result: "shorter",
            }),
          ),
        ).toMatchObject({
          asked: "command",
          status: "answered",
          result: { command: "compact", result: "shorter" },
        })
      })
      const diffOf = (diff: string) => (requestId: string) => {
        const files = [{ path: "a.txt", status: "modified" as const, diff }]
        return { type: "diff" as const, requestId, data: { files } }
      }
      test("a diff comes as an event", async () => {
        expect(await asking({ type: "diff" }, { type: "diff" }, diffOf("+a"))).toMatchObject({
          asked: "diff",
          result: { files: [{ path: "a.txt", diff: "+a" }] },
        })
      })
      test("a diff too long to be kept is words that say so", async () => {
        const long = "+a line of a file\n".repeat(200_000)
        expect(await asking({ type: "diff" }, { type: "diff" }, diffOf(long))).toMatchObject({
          status: "answered",
          result: { error: expect.stringContaining("too long to store") as string },
        })
      })
      test("a review is made, and its findings come as an event", async () => {
        expect(
          await asking({ type: "review" }, { type: "review" }, (requestId) => ({
            type: "review-result",
            requestId,
            error: "there is nothing to review",
          })),
        ).toMatchObject({ asked: "review", result: { error: "there is nothing to review" } })
      })
      test("a channel gets a fresh conversation", async () => {
        const place = { channelType: "chat", channelId: "7" }
        expect(
          await asking(
            { type: "new-session", ...place },
            { type: "new-session", ...place },
            (requestId) => ({ type: "session-reset", requestId, ...place }),
          ),
        ).toMatchObject({ asked: "new-session", result: { channel: "chat:7" } })
      })
      test("a message is undone with its answer, for every client", async () => {
        const [one, two] = [await client(), await client()]
        const eager = runner()
        const { messageId } = await one.ask({ type: "prompt", content: "undo me" })
        await one.until(() => one.messages().length === 2 && one.queue().length === 0, "answer")
        expect(await one.ask({ type: "revert", messageId: "none" })).toMatchObject({
          error: { code: "not-found" },
        })
        expect(await one.ask({ type: "revert", messageId })).toMatchObject({ ok: true })
        await until(() => eager.frames.some(({ type }) => type === "revert"), "revert")
        eager.send({ type: "reverted", messageIds: [String(messageId)] })
        await two.until(() => two.messages().length === 0, "empty conversation")
        expect((await client()).messages()).toEqual([])
      })
      test("settings reach the runner that is there and the next one, whole", async () => {
        const one = await client()
        const first = runner()
        const configs = (of: FakeRunner) =>
          of.frames.flatMap((frame) => (frame.type === "opencode-config" ? [frame.config] : []))
        await until(() => configs(first).length === 1, "first configuration")
        await one.ask({ type: "config", config: { instructions: ["be brief"] } })
        await until(() => configs(first).length === 2, "changed configuration")
        await host.disturb()
        await one.ask({ type: "config", config: { isOrchestrator: true } })
        await first.stop()
        const second = runner()
        await until(() => configs(second).length === 1, "configuration of the next")
        expect(configs(second)[0]).toMatchObject({
          instructions: ["be brief"],
          isOrchestrator: true,
        })
      })
      test("messages older than a snapshot are read page by page", async () => {
        const one = await client()
        runner()
        for (const content of ["one", "two", "three"]) {
          await one.ask({ type: "prompt", content })
          await one.until(() => one.queue().length === 0, "answer")
        }
        const said = async (before: number) => {
          const page = (await one.ask({ type: "history", before, limit: 2 })) as {
            messages: { parts: { text: string }[] }[]
            before?: number
          }
          return {
            texts: page.messages.map(({ parts }) => parts[0]?.text),
            before: page.before ?? 0,
          }
        }
        const newest = await said(1_000_000)
        expect(newest.texts).toEqual(["three", "three"])
        expect((await said(newest.before)).texts).toEqual(["two", "two"])
      })
      test("files of a prompt arrive whole, also big ones, after a death and when it is asked again", async () => {
        const bytes = Buffer.from(Uint8Array.from({ length: 2_400_000 }, (_, index) => index % 251))
        const url = `data:application/octet-stream;base64,${bytes.toString("base64")}`
        const attachments = [
          { type: "file", mime: "application/octet-stream", url, filename: "big.bin" },
          { type: "file", mime: "text/plain", url: "data:,small" },
        ]
        const asked = { content: "look", clientRequestId: "files", attachments }
        const first = (await (await post("prompt", asked)).json()) as Record<string, unknown>
        expect(first).toMatchObject({ ok: true, fresh: true })
        await host.restart()
        expect(await (await post("prompt", asked)).json()).toEqual({ ...first, fresh: false })
        const late = runner()
        await until(() => late.prompts.length === 1, "prompt")
        expect(late.prompts[0]?.attachments?.map((file) => file.url === url)).toEqual([true, false])
        expect(late.prompts[0]?.attachments?.[1]).toEqual(attachments[1] as never)
      })
      test("files of a prompt are kept until it is over and no longer; asked again, it is still the same", async () => {
        const url = (text: string) => `data:text/plain;base64,${btoa(text)}`
        const asked = (text: string) => ({
          content: "look",
          clientRequestId: "files",
          attachments: [{ type: "file", mime: "text/plain", url: url(text) }],
        })
        const first = (await (await post("prompt", asked("one"))).json()) as Record<string, unknown>
        await until(() => host.blobs() === 1, "blob")
        const lost = runner({ eager: false })
        await until(() => lost.prompts.length === 1, "prompt")
        lost.kill()
        await host.restart()
        expect(host.blobs()).toBe(1)
        const lazy = runner({ eager: false, stateDir: join(folder, "next") })
        await until(() => lazy.prompts.length === 1, "the same prompt")
        expect(lazy.prompts[0]?.attachments?.[0]?.url).toBe(url("one"))
        expect(host.blobs()).toBe(1)
        lazy.send({ type: "screenshot", data: btoa("pixels"), description: "a screen" })
        await until(() => host.blobs() === 2, "screenshot")
        lazy.work(100)
        await until(() => host.blobs() === 1, "blob gone")
        await host.disturb()
        expect(await (await post("prompt", asked("one"))).json()).toEqual({
          ...first,
          fresh: false,
        })
        expect((await post("prompt", asked("two"))).status).toBe(409)
        const one = await client()
        const artifacts = one.events[0]?.["artifacts"] as { id: string }[] | undefined
        const path = `/sessions/s1/artifacts/${artifacts?.[0]?.id}?token=${host.clientToken}`
        expect(await (await fetch(host.url + path)).text()).toBe("pixels")
        expect(host.blobs()).toBe(1)
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
        await put("s2", { parent: "s1" })
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
      test("makes a webhook that works with its secret only", async () => {
        const asking = runner()
        const { data } = await asking.uplink.request("trigger-api", {
          action: "create",
          payload: { name: "on push", config: { type: "webhook", prompt: "somebody pushed" } },
        })
        const { trigger } = data as { trigger: { path: string; secret: string } }
        const call = (secret: string) =>
          fetch(`${host.url}${trigger.path}`, {
            method: "POST",
            headers: { Authorization: `Bearer ${secret}` },
            body: "{}",
          })
        expect((await call("wrong")).status).toBe(401)
        expect((await call(trigger.secret)).status).toBe(202)
        await until(() => asking.prompts.length === 1, "prompt of the hook")
        expect(asking.prompts[0]?.content).toContain("somebody pushed")
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

    describe("a run that is cancelled while its runner cannot hear it", () => {
      const executionOf = (frame: FakeRunner["frames"][number]) =>
        frame.type === "workflow-execute"
          ? `run ${frame.executionId}`
          : frame.type === "abort" && frame.channelType === "workflow"
            ? `stop ${frame.channelId}`
            : undefined
      const told = (of: FakeRunner) => of.frames.flatMap((frame) => executionOf(frame) ?? [])

      /** A run on a runner whose wire is dead and does not look it, cancelled from another session. */
      const cancelUnheard = async () => {
        const wire = await startTcpProxy(Number(new URL(host.url).port))
        wires.push(wire)
        const working = runner({ url: `ws://127.0.0.1:${wire.port}/sessions/s1/ws` })
        await put("s2", { runnerToken: TOKEN })
        const asking = runner({
          url: `${host.url.replace(/^http/, "ws")}/sessions/s2/ws`,
          stateDir: join(folder, "asking"),
        })
        const { request } = working.uplink
        await request("workflow-sync", {
          name: "W",
          data: { steps: [{ type: "bash", command: "true" }] },
        })
        const run = async () =>
          String((await request("workflow-run", { workflowId: "w" })).execution["id"])
        const id = await run()
        await until(() => told(working).includes(`run ${id}`), "order")
        wire.freeze()
        const payload = { executionId: id }
        await asking.uplink.request("execution-api", { action: "cancel", payload })
        const status = async () => {
          const { data } = await asking.uplink.request("execution-api", { action: "get", payload })
          return (data as { execution: { status: string } }).execution.status
        }
        return { wire, working, id, run, status }
      }

      test("is stopped when it can, once, and no result makes it a success", async () => {
        const { wire, working, id, run, status } = await cancelUnheard()
        await host.disturb()
        // Time for the word to get lost on the wire.
        await Bun.sleep(100)
        wire.reset()
        await until(() => told(working).includes(`stop ${id}`), "stop")
        const envelope = { ok: true, status: "ok", executionId: id } as const
        working.send({ type: "workflow-execution-result", executionId: id, envelope })
        const next = await run()
        await until(() => told(working).includes(`run ${next}`), "next run")
        expect(await status()).toBe("cancelled")
        wire.reset()
        // Ordered anew on the new connection, because it has no answer; the other has one.
        await until(() => told(working).filter((line) => line === `run ${next}`).length > 1, "run")
        expect(told(working).filter((line) => line.endsWith(id))).toEqual([
          `run ${id}`,
          `stop ${id}`,
        ])
      })

      test("is stopped by the host's next life too", async () => {
        const { wire, working, id, status } = await cancelUnheard()
        await host.restart()
        wire.reset()
        await until(() => told(working).includes(`stop ${id}`), "stop")
        expect(await status()).toBe("cancelled")
        expect(told(working)).toEqual([`run ${id}`, `stop ${id}`])
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
