/**
 * The contract of a host of the session agent. Every host runs these tests, with the runner's real link at the other end. All tests
 * of a host share one start of it and its store of memories and workflows; each has a session of its own.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./kit/fake-runner.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { connectRawRunner } from "./kit/raw-runner.ts"
import { openUntilClosed } from "./kit/close-frame.ts"
import { untilEqual, untilTrue } from "../kit/until-true.ts"
import { startTcpProxy, type TcpProxy } from "../kit/tcp-proxy.ts"

export interface ContractHost {
  /** The base URL of its HTTP API. */
  readonly url: string
  readonly clientToken: string
  /** What the host may do between any two frames without an effect on clients and runner, for example sleep. */
  readonly disturb: (session: string) => Promise<void>
  /** The same for the list of sessions. */
  readonly disturbLobby?: () => Promise<void>
  /** Crashes and starts again with what it has written. */
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
  /** Number of blobs of a session, read from the disk. */
  readonly blobs: (session: string) => Promise<number>
}

const TOKEN = "runner-token-of-the-tests"

export const testContract = (name: string, start: () => Promise<ContractHost>): void => {
  let host: ContractHost
  let folder: string
  let sessions = 0
  /** The session of the running test. */
  let own = ""
  const runners: FakeRunner[] = []
  const clients: TestClient[] = []
  const wires: TcpProxy[] = []

  const blobs = () => host.blobs(own)
  const disturb = () => host.disturb(own)
  const runnerUrl = (session = own) => `${host.url.replace(/^http/, "ws")}/sessions/${session}/ws`
  const put = (session: string, body: object) =>
    fetch(`${host.url}/sessions/${session}`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${host.clientToken}` },
      body: JSON.stringify(body),
    })
  const post = (verb: string, body: object, token = host.clientToken) =>
    fetch(`${host.url}/sessions/${own}/${verb}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    })
  const runner = (options: Partial<FakeRunnerOptions> = {}): FakeRunner => {
    const started = startFakeRunner({
      url: runnerUrl(),
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
    const connected = await connectClient(host.url, host.clientToken, { session: own, ...options })
    clients.push(connected)
    return connected
  }

  describe(name, () => {
    beforeAll(async () => {
      host = await start()
    })
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), "contract-"))
      sessions += 1
      own = `contract-${sessions}`
      expect((await put(own, { runnerToken: TOKEN })).status).toBe(201)
    })
    afterEach(async () => {
      for (const one of clients.splice(0)) one.close()
      await Promise.all(runners.splice(0).map((one) => one.stop()))
      await Promise.all(wires.splice(0).map((one) => one.stop()))
      await rm(folder, { recursive: true, force: true })
    })
    afterAll(() => host.stop())

    describe("a connecting runner", () => {
      const answerTo = (session: string, token: string) =>
        fetch(`${host.url}/sessions/${session}/ws?role=runner&token=${token}`, {
          headers: {
            upgrade: "websocket",
            connection: "upgrade",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
            "sec-websocket-version": "13",
          },
        })
      const connect = async (session: string, token: string) =>
        (await answerTo(session, token)).status
      test("a runner gets 503 while its session has no runner token", async () => {
        await put(`${own}-other`, {})
        expect(await connect(`${own}-other`, TOKEN)).toBe(503)
      })
      test("a runner with a wrong token or without a token gets 401", async () => {
        expect(await connect(own, "wrong")).toBe(401)
        expect(await connect(own, "")).toBe(401)
      })
      test("a runner of a session that does not exist gets the answer of a wrong token", async () => {
        const missing = await answerTo("missing", TOKEN)
        const wrong = await answerTo(own, "wrong")
        expect(missing.status).toBe(401)
        expect(await missing.text()).toBe(await wrong.text())
      })
      test("a second runner closes the connection of the first with code 1000 and a reason", async () => {
        const address = `${runnerUrl()}?role=runner&token=${TOKEN}`
        const first = await openUntilClosed(address)
        runner()
        const watcher = await client()
        await watcher.until(() => watcher.state("runner") !== undefined, "second runner")
        // Without `disturb`: workerd does not evict an object while one of its sockets is closing.
        expect(await first.closed).toBe("1000 Replaced by new runner connection")
        first.end()
      })
      test("frames that a runner sends right before it disconnects are handled, however many there are", async () => {
        const raw = await connectRawRunner(host.url, own, TOKEN)
        const tunnelOf = (called: string) => ({
          name: called,
          port: 3000,
          protocol: "auto",
          path: `/t/${called}`,
        })
        const names = Array.from({ length: 1000 }, (_, index) => `t${index}`)
        raw.send(...names.map((called) => ({ type: "tunnels", tunnels: [tunnelOf(called)] })))
        raw.close()
        const watcher = await client()
        await watcher.until(
          () => (watcher.state("runner") as { connected?: boolean })?.connected === false,
          "end of the connection",
        )
        expect(watcher.state("tunnels")).toMatchObject([{ name: names.at(-1) }])
      })
      test("a new runner gets init and config, and the runner before it ends", async () => {
        const first = runner()
        await untilTrue(
          () => first.frames.some(({ type }) => type === "opencode-config"),
          "configuration",
        )
        expect(first.frames.map(({ type }) => type).slice(0, 2)).toEqual([
          "init",
          "opencode-config",
        ])
        runner({ stateDir: join(folder, "second") })
        await disturb()
        await untilTrue(() => first.endings.length > 0, "end of the first runner")
        expect(first.endings).toEqual(["another runner has connected to this session"])
      })
    })

    describe("a prompt", () => {
      test("a prompt is answered and every client reads the same text", async () => {
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

      test("a prompt that is queued without a runner runs once when a runner connects", async () => {
        const one = await client()
        await one.ask({ type: "prompt", content: "later" })
        await disturb()
        const late = runner()
        await one.until(
          () =>
            one.messages().some(({ status, role }) => role === "assistant" && status === "done"),
          "answer",
        )
        expect(late.prompts).toHaveLength(1)
      })

      test("a repeated clientRequestId is the same prompt, and a conflict with another content", async () => {
        const one = await client()
        const first = await one.ask({ type: "prompt", content: "a", clientRequestId: "r1" })
        await disturb()
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

      test("a prompt waits for the one before it in its channel and not for other channels", async () => {
        const one = await client()
        const manual = runner({ eager: false })
        await one.ask({ type: "prompt", content: "a1" })
        await one.ask({ type: "prompt", content: "a2" })
        await one.ask({ type: "prompt", content: "b1", channelType: "chat", channelId: "7" })
        await untilTrue(() => manual.prompts.length === 2, "two prompts")
        expect(manual.prompts.map(({ content }) => content)).toEqual(["a1", "b1"])
        manual.work(100)
        await untilTrue(() => manual.prompts.length === 3, "the third")
        expect(manual.prompts[2]?.content).toBe("a2")
      })

      test("a prompt is dispatched only after the runner reports idle", async () => {
        const one = await client()
        await one.ask({ type: "prompt", content: "patience" })
        const busy = runner({ answer: () => [], eager: false })
        busy.send({ type: "agentStatus", status: "thinking", detail: "starting" })
        await untilTrue(() => busy.frames.some(({ type }) => type === "abort"), "barrier")
        await untilTrue(() => busy.prompts.length === 1, "prompt after idle")
      })

      test("a queued prompt can be withdrawn and promoted, a dispatched one cannot", async () => {
        const one = await client()
        const manual = runner({ eager: false })
        const a = await one.ask({ type: "prompt", content: "a" })
        await untilTrue(() => manual.prompts.length === 1, "first prompt")
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
          manual.work(100)
          await untilTrue(() => manual.prompts.length === count, `prompt ${count}`)
        }
        expect(manual.prompts.map(({ content }) => content)).toEqual(["a", "d", "c"])
        void c
      })
    })

    describe("a stop", () => {
      test("a stop ends the turn as canceled and the next prompt runs", async () => {
        const one = await client()
        const manual = runner({ eager: false })
        const { messageId } = await one.ask({ type: "prompt", content: "one two three" })
        await untilTrue(() => manual.busy() === 1, "turn")
        manual.work(1)
        await one.ask({ type: "prompt", content: "next" })
        expect(await one.ask({ type: "abort" })).toMatchObject({ ok: true, stopping: 1 })
        await untilTrue(() => manual.prompts.length === 2, "next prompt")
        await one.until(
          () =>
            one
              .messages()
              .some((message) => message.promptId === messageId && message.status === "canceled"),
          "canceled message",
        )
        expect(one.answerTo(String(messageId))).toBe("one ")
      })
      test("a stop without a running prompt succeeds and stops nothing", async () => {
        const one = await client()
        expect(await one.ask({ type: "abort" })).toMatchObject({ ok: true, stopping: 0 })
      })
    })

    describe("a question", () => {
      test("the first answer to a question counts and a second one is too late", async () => {
        const [one, two] = [await client(), await client()]
        const manual = runner({ eager: false })
        const { messageId } = await one.ask({ type: "prompt", content: "ask me" })
        await untilTrue(() => manual.busy() === 1, "turn")
        manual.send({
          type: "question",
          questionId: "q1",
          text: "Which?",
          options: ["a", "b"],
          messageId: String(messageId),
          channelType: "web",
          channelId: "default",
        })
        await two.until(() => two.events.some(({ type }) => type === "interaction"), "question")
        await disturb()
        expect(await two.ask({ type: "answer", id: "q1", answer: "b" })).toMatchObject({ ok: true })
        expect(await one.ask({ type: "answer", id: "q1", answer: "a" })).toMatchObject({
          error: { code: "too-late" },
        })
        expect(await one.ask({ type: "answer", id: "q9", answer: "a" })).toMatchObject({
          error: { code: "not-found" },
        })
        await untilTrue(
          () => manual.frames.some(({ type }) => type === "answer"),
          "answer at the runner",
        )
        expect(manual.frames.filter(({ type }) => type === "answer")).toEqual([
          { type: "answer", questionId: "q1", answer: "b" },
        ])
      })
    })

    describe("a permission that the runner waits for only for a time", () => {
      test("a permission with a time limit is withdrawn at every client after that time, also outside a turn, and a later reply is too late", async () => {
        const [one, two] = [await client(), await client()]
        const manual = runner({ eager: false })
        await one.until(() => one.state("agent") !== undefined, "runner")
        const asked = { type: "permission" as const, title: "Run the action", patterns: ["{}"] }
        manual.send({ ...asked, permissionId: "kept" })
        manual.send({ ...asked, permissionId: "timed", waitMs: 200 })
        const isSeen = (viewer: TestClient, id: string, status: string) =>
          viewer.events.some((event) => Bun.deepMatch({ interaction: { id, status } }, event))
        await disturb()
        for (const viewer of [one, two]) {
          await viewer.until(() => isSeen(viewer, "timed", "expired"), "the end of the wait")
          await viewer.until(() => isSeen(viewer, "kept", "open"), "the other permission")
        }
        expect(await one.ask({ type: "permission", id: "timed", reply: "once" })).toMatchObject({
          error: { code: "too-late" },
        })
        expect(await one.ask({ type: "permission", id: "kept", reply: "once" })).toMatchObject({
          ok: true,
        })
        await untilTrue(
          () => manual.frames.some(({ type }) => type === "permission-reply"),
          "reply at the runner",
        )
        expect(manual.frames.filter(({ type }) => type === "permission-reply")).toEqual([
          { type: "permission-reply", permissionId: "kept", reply: "once" },
        ])
      })
    })

    describe("a client's request to the runner", () => {
      /** Sends a request, checks the frame that the runner gets, answers it, and returns the client's `answer` event. */
      const asking = async (
        message: Record<string, unknown>,
        frame: Record<string, unknown>,
        answer: (requestId: string) => Parameters<FakeRunner["send"]>[0],
      ) => {
        const one = await client()
        const manual = runner({ eager: false })
        await one.until(() => one.state("agent") !== undefined, "runner")
        const { requestId } = await one.ask(message)
        await disturb()
        await untilTrue(
          () => manual.frames.some((got) => "requestId" in got && got.requestId === requestId),
          "question at the runner",
        )
        expect(
          manual.frames.find((got) => "requestId" in got && got.requestId === requestId),
        ).toMatchObject(frame)
        manual.send(answer(String(requestId)))
        const found = () =>
          one.events.find((event) => event["requestId"] === requestId && event["type"] === "answer")
        await one.until(() => found() !== undefined, "answer")
        return found()
      }

      test("a command runs and its result comes as an event", async () => {
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
      test("a diff that is too long to store becomes an error that reports it", async () => {
        const long = "+a line of a file\n".repeat(200_000)
        expect(await asking({ type: "diff" }, { type: "diff" }, diffOf(long))).toMatchObject({
          status: "answered",
          result: { error: expect.stringContaining("too long to store") as string },
        })
      })
      test("a review runs and its result comes as an event", async () => {
        expect(
          await asking({ type: "review" }, { type: "review" }, (requestId) => ({
            type: "review-result",
            requestId,
            error: "there is nothing to review",
          })),
        ).toMatchObject({ asked: "review", result: { error: "there is nothing to review" } })
      })
      test("new-session gives a channel a fresh conversation", async () => {
        const place = { channelType: "chat", channelId: "7" }
        expect(
          await asking(
            { type: "new-session", ...place },
            { type: "new-session", ...place },
            (requestId) => ({ type: "session-reset", requestId, ...place }),
          ),
        ).toMatchObject({ asked: "new-session", result: { channel: "chat:7" } })
      })
      test("a revert removes a message and its answer for every client", async () => {
        const [one, two] = [await client(), await client()]
        const eager = runner()
        const { messageId } = await one.ask({ type: "prompt", content: "undo me" })
        await one.until(() => one.messages().length === 2 && one.queue().length === 0, "answer")
        expect(await one.ask({ type: "revert", messageId: "none" })).toMatchObject({
          error: { code: "not-found" },
        })
        expect(await one.ask({ type: "revert", messageId })).toMatchObject({ ok: true })
        await untilTrue(() => eager.frames.some(({ type }) => type === "revert"), "revert")
        eager.send({ type: "reverted", messageIds: [String(messageId)] })
        await two.until(() => two.messages().length === 0, "empty conversation")
        expect((await client()).messages()).toEqual([])
      })
      test("config changes reach the connected runner, and the next runner gets the merged config", async () => {
        const one = await client()
        const first = runner()
        const configs = (of: FakeRunner) =>
          of.frames.flatMap((frame) => (frame.type === "opencode-config" ? [frame.config] : []))
        await untilTrue(() => configs(first).length === 1, "first configuration")
        await one.ask({ type: "config", config: { instructions: ["be brief"] } })
        await untilTrue(() => configs(first).length === 2, "changed configuration")
        await disturb()
        await one.ask({ type: "config", config: { isOrchestrator: true } })
        await first.stop()
        const second = runner()
        await untilTrue(() => configs(second).length === 1, "configuration of the next")
        expect(configs(second)[0]).toMatchObject({
          instructions: ["be brief"],
          isOrchestrator: true,
        })
      })
      test("history returns older messages page by page", async () => {
        const one = await client()
        runner()
        for (const content of ["one", "two", "three"]) {
          await one.ask({ type: "prompt", content })
          await one.until(() => one.queue().length === 0, "answer")
        }
        const readPage = async (before: number) => {
          const page = (await one.ask({ type: "history", before, limit: 2 })) as {
            messages: { parts: { text: string }[] }[]
            before?: number
          }
          return {
            texts: page.messages.map(({ parts }) => parts[0]?.text),
            before: page.before ?? 0,
          }
        }
        const newest = await readPage(1_000_000)
        expect(newest.texts).toEqual(["three", "three"])
        expect((await readPage(newest.before)).texts).toEqual(["two", "two"])
      })
      test("the files of a prompt, also big ones, reach the runner unchanged after a restart of the host and a repeated request", async () => {
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
        await untilTrue(() => late.prompts.length === 1, "prompt")
        expect(late.prompts[0]?.attachments?.map((file) => file.url === url)).toEqual([true, false])
        expect(late.prompts[0]?.attachments?.[1]).toEqual(attachments[1] as never)
      })
      test("the files of a prompt are deleted when it ends, and a repeated request is still recognized", async () => {
        const url = (text: string) => `data:text/plain;base64,${btoa(text)}`
        const asked = (text: string) => ({
          content: "look",
          clientRequestId: "files",
          attachments: [{ type: "file", mime: "text/plain", url: url(text) }],
        })
        const first = (await (await post("prompt", asked("one"))).json()) as Record<string, unknown>
        await untilEqual(blobs, 1, "blob")
        const lost = runner({ eager: false })
        await untilTrue(() => lost.prompts.length === 1, "prompt")
        lost.kill()
        await host.restart()
        expect(await blobs()).toBe(1)
        const manual = runner({ eager: false, stateDir: join(folder, "next") })
        await untilTrue(() => manual.prompts.length === 1, "the same prompt")
        expect(manual.prompts[0]?.attachments?.[0]?.url).toBe(url("one"))
        expect(await blobs()).toBe(1)
        manual.send({ type: "screenshot", data: btoa("pixels"), description: "a screen" })
        await untilEqual(blobs, 2, "screenshot")
        manual.work(100)
        await untilEqual(blobs, 1, "deleted blob")
        await disturb()
        expect(await (await post("prompt", asked("one"))).json()).toEqual({
          ...first,
          fresh: false,
        })
        expect((await post("prompt", asked("two"))).status).toBe(409)
        const one = await client()
        const artifacts = one.events[0]?.["artifacts"] as { id: string }[] | undefined
        const path = `/sessions/${own}/artifacts/${artifacts?.[0]?.id}?token=${host.clientToken}`
        expect(await (await fetch(host.url + path)).text()).toBe("pixels")
        expect(await blobs()).toBe(1)
      })
    })

    describe("files that the agent shows", () => {
      test("a shown file reaches a client once, also when the runner and the hub restart, and can be read as it was written", async () => {
        const watching = await client()
        const file = (path: string, content: string) => ({
          path,
          sha256: new Bun.CryptoHasher("sha256").update(content).digest("hex"),
          data: btoa(content),
        })
        const first = runner({ eager: false })
        first.send({ type: "artifacts", files: [file("report.html", "<b>first</b>")] })
        await untilEqual(blobs, 1, "the file")
        first.kill()
        await host.restart()
        const second = runner({ eager: false, stateDir: join(folder, "next") })
        second.send({ type: "artifacts", files: [file("report.html", "<b>first</b>")] })
        second.send({ type: "artifacts", files: [file("report.html", "<b>second</b>")] })
        await untilEqual(blobs, 2, "the changed file")
        const later = await client({ from: watching })
        const seen = [...watching.events, ...later.events]
          .flatMap((event) => (event["events"] as Record<string, unknown>[] | undefined) ?? [event])
          .flatMap(({ artifact }) => (artifact === undefined ? [] : [artifact as { id: string }]))
        expect(new Set(seen.map(({ id }) => id)).size).toBe(2)
        const texts = await Promise.all(
          [...new Set(seen.map(({ id }) => id))].map(async (id) => {
            const url = `${host.url}/sessions/${own}/artifacts/${id}?token=${host.clientToken}`
            const response = await fetch(url)
            expect(response.headers.get("content-type")).toBe("application/octet-stream")
            expect(response.headers.get("content-disposition")).toBe("attachment")
            return response.text()
          }),
        )
        expect(texts.toSorted()).toEqual(["<b>first</b>", "<b>second</b>"])
      })
    })

    describe("a resuming client", () => {
      test("a client that resumes with its cursor reads only what it missed", async () => {
        const one = await client()
        const manual = runner({
          eager: false,
          answer: () => Array.from({ length: 100 }, (_, index) => `${index} `),
        })
        const { messageId } = await one.ask({ type: "prompt", content: "count" })
        await untilTrue(() => manual.busy() === 1, "turn")
        manual.work(40)
        await one.until(() => one.answerTo(String(messageId)).endsWith("39 "), "forty deltas")
        // The number of this change is above the numbers of the deltas, which clients are not told.
        manual.send({ type: "tunnels", tunnels: [] })
        await one.until(() => one.state("tunnels") !== undefined, "a change after the deltas")
        const before = one.cursor()
        one.close()
        manual.work(60)
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
        // The summary of the channel begins with the answer's first words; the answer itself is not sent again.
        const sent = JSON.stringify(two.events, (field, value) =>
          field === "lastText" ? undefined : value,
        )
        expect(sent).toContain("52 53 54")
        expect(sent).not.toContain("12 13 14")
      })
      test("a cursor from the future gets a snapshot", async () => {
        const one = await client({ cursor: 999_999 })
        expect(one.events[0]).toMatchObject({ type: "snapshot" })
      })
    })

    describe("the HTTP API", () => {
      test("a prompt over HTTP is queued and its answer comes as server-sent events", async () => {
        runner()
        const stream = await fetch(`${host.url}/sessions/${own}/events?token=${host.clientToken}`)
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
      test("invalid input is refused with the name of the field and changes nothing", async () => {
        const bad = await post("prompt", { content: "" })
        expect(bad.status).toBe(400)
        expect(await bad.json()).toMatchObject({ error: { message: "content: must not be empty" } })
        expect((await post("no-such-verb", {})).status).toBe(400)
        expect((await post("diff", {})).status).toBe(503)
        const snapshot = await fetch(`${host.url}/sessions/${own}?token=${host.clientToken}`)
        expect(await snapshot.json()).toMatchObject({ queue: [], messages: [] })
      })
      test("requests without the token or from another origin are refused", async () => {
        expect((await post("prompt", { content: "x" }, "wrong")).status).toBe(401)
        expect((await fetch(`${host.url}/sessions`)).status).toBe(401)
        expect((await fetch(`${host.url}/anything`)).status).toBe(404)
        const elsewhere = await fetch(`${host.url}/sessions/${own}?token=${host.clientToken}`, {
          headers: { origin: "https://evil.example" },
        })
        expect(elsewhere.status).toBe(403)
      })
    })

    describe("a request of the runner", () => {
      test("a repeated request of the runner is carried out once", async () => {
        const asking = runner()
        const { memory } = await asking.uplink.request("memory-write", {
          content: "herons wade",
          category: "birds",
        })
        expect(memory).toMatchObject({ category: "birds", sessionId: own })
        await disturb()
        const twice = {
          type: "memory-write",
          requestId: "twice",
          content: "swifts sleep in the air",
          category: "birds",
        } as const
        asking.send(twice)
        asking.send(twice)
        // A later request is carried out after them.
        await asking.uplink.request("memory-write", { content: "terns dive", category: "birds" })
        const all = await asking.uplink.request("memory-read", { query: "swift" })
        expect(all.memories).toHaveLength(1)
      })
      test("a request of the runner reaches another session and is refused for a missing one", async () => {
        const other = `${own}-other`
        await put(other, { parent: own })
        const asking = runner()
        await asking.uplink.request("session-message", { targetSessionId: other, content: "hello" })
        expect(
          await asking.uplink.request("get-session-status", { targetSessionId: other }),
        ).toMatchObject({
          sessionStatus: { id: other, queued: 1 },
        })
        expect(
          asking.uplink.request("get-session-status", { targetSessionId: "s9" }),
        ).rejects.toThrow("there is no session s9")
        const listed = await fetch(`${host.url}/sessions?token=${host.clientToken}`)
        expect(JSON.stringify(await listed.json())).toContain(`"${other}"`)
      })
      test("a webhook trigger of the runner fires only with its secret", async () => {
        const asking = runner()
        const { data } = await asking.uplink.request("trigger-api", {
          action: "create",
          payload: { name: "on push", config: { type: "webhook", prompt: "a push happened" } },
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
        await untilTrue(() => asking.prompts.length === 1, "prompt of the hook")
        expect(asking.prompts[0]?.content).toContain("a push happened")
      })
      test("a workflow runs on the runner that requested it", async () => {
        const asking = runner()
        await asking.uplink.request("workflow-sync", {
          name: "W",
          data: { steps: [{ type: "bash", command: "true" }] },
        })
        const { execution } = await asking.uplink.request("workflow-run", { workflowId: "w" })
        await untilTrue(
          () =>
            asking.frames.some(
              (frame) => frame.type === "workflow-execute" && frame.executionId === execution["id"],
            ),
          "order",
        )
      })
    })

    describe("a workflow run that is cancelled while its runner is unreachable", () => {
      const executionOf = (frame: FakeRunner["frames"][number]) =>
        frame.type === "workflow-execute"
          ? `run ${frame.executionId}`
          : frame.type === "abort" && frame.channelType === "workflow"
            ? `stop ${frame.channelId}`
            : undefined
      const received = (of: FakeRunner) => of.frames.flatMap((frame) => executionOf(frame) ?? [])

      /** Cancels a run from another session while the run's runner has a frozen connection, which looks open. */
      const cancelWhileFrozen = async () => {
        const wire = await startTcpProxy(Number(new URL(host.url).port))
        wires.push(wire)
        const working = runner({ url: `ws://127.0.0.1:${wire.port}/sessions/${own}/ws` })
        await put(`${own}-other`, { runnerToken: TOKEN })
        const asking = runner({
          url: runnerUrl(`${own}-other`),
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
        await untilTrue(() => received(working).includes(`run ${id}`), "order")
        wire.freeze()
        const payload = { executionId: id }
        await asking.uplink.request("execution-api", { action: "cancel", payload })
        const status = async () => {
          const { data } = await asking.uplink.request("execution-api", { action: "get", payload })
          return (data as { execution: { status: string } }).execution.status
        }
        return { wire, working, id, run, status }
      }

      test("an unreachable cancelled run is stopped once after the reconnect, and a late result does not make it a success", async () => {
        const { wire, working, id, run, status } = await cancelWhileFrozen()
        await disturb()
        await untilTrue(() => wire.lost().includes(id), "stop on the frozen connection")
        wire.reset()
        await untilTrue(() => received(working).includes(`stop ${id}`), "stop")
        const envelope = { ok: true, status: "ok", executionId: id } as const
        working.send({ type: "workflow-execution-result", executionId: id, envelope })
        const next = await run()
        await untilTrue(() => received(working).includes(`run ${next}`), "next run")
        expect(await status()).toBe("cancelled")
        wire.reset()
        // The second run has no result yet, so it is ordered again; the first one is answered.
        await untilTrue(
          () => received(working).filter((line) => line === `run ${next}`).length > 1,
          "run",
        )
        expect(received(working).filter((line) => line.endsWith(id))).toEqual([
          `run ${id}`,
          `stop ${id}`,
        ])
      })

      test("an unreachable cancelled run is stopped after a restart of the host too", async () => {
        const { wire, working, id, status } = await cancelWhileFrozen()
        await host.restart()
        wire.reset()
        await untilTrue(() => received(working).includes(`stop ${id}`), "stop")
        expect(await status()).toBe("cancelled")
        expect(received(working)).toEqual([`run ${id}`, `stop ${id}`])
      })
    })

    describe("a host that sleeps and crashes", () => {
      test("the text of a turn is exact although the host sleeps every few deltas", async () => {
        const one = await client()
        const pieces = Array.from({ length: 60 }, (_, index) => `w${index}👋 `)
        const manual = runner({
          eager: false,
          answer: () => pieces.flatMap((piece) => piece.split("")),
        })
        const { messageId } = await one.ask({ type: "prompt", content: "go" })
        await untilTrue(() => manual.busy() === 1, "turn")
        while (manual.busy() > 0) {
          const length = one.answerTo(String(messageId)).length
          manual.work(40)
          await one.until(() => one.answerTo(String(messageId)).length > length, "the next deltas")
          await disturb()
        }
        const two = await client()
        await two.until(
          () =>
            two.messages().some(({ role, status }) => role === "assistant" && status === "done"),
          "end",
        )
        expect(two.answerTo(String(messageId))).toBe(pieces.join(""))
      })

      test("a restart of the host during a turn loses nothing and runs nothing twice", async () => {
        const one = await client()
        const pieces = Array.from({ length: 200 }, (_, index) => `${index} `)
        const manual = runner({ eager: false, answer: () => pieces })
        const { messageId } = await one.ask({ type: "prompt", content: "go" })
        await one.ask({ type: "prompt", content: "then this" })
        await untilTrue(() => manual.busy() === 1, "turn")
        manual.work(100)
        await one.until(() => one.answerTo(String(messageId)) !== "", "the first deltas")
        await host.restart()
        manual.work(100)
        const two = await client()
        await two.until(
          () =>
            two.messages().some(({ role, status }) => role === "assistant" && status === "done"),
          "end",
        )
        expect(two.answerTo(String(messageId))).toBe(pieces.join(""))
        await untilTrue(() => manual.prompts.length === 2, "the second prompt")
        manual.work(200)
        await two.until(() => two.queue().length === 0, "empty queue")
        expect(new Set(manual.prompts.map((prompt) => prompt.messageId)).size).toBe(2)
        expect(manual.prompts).toHaveLength(2)
      })
    })
  })
}
