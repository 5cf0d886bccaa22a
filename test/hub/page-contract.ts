/** What the page needs of a host, beyond the contract of every client. Both hosts run these tests, each on one start. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ContractHost } from "./contract.ts"
import type { MessagePage, SearchHit, Snapshot } from "../../src/wire/clients/conversation.ts"
import type { ListedSession } from "../../src/wire/clients/lobby.ts"
import type { OutboundFrame } from "../../src/wire/frames/index.ts"
import { connectClient, type TestClient } from "./kit/client.ts"
import { type FakeRunner, type FakeRunnerOptions, startFakeRunner } from "./kit/fake-runner.ts"
import { untilTrue } from "../kit/until-true.ts"
import { testHttpErrors } from "./http-errors-contract.ts"
import { testNewSessions } from "./new-sessions-contract.ts"
import { testPanels } from "./panel-contract.ts"

const TOKEN = "runner-token-of-the-page-tests"

export interface House {
  readonly session: string
  /** The key that the gateway of its sandbox checks. */
  readonly gatewayKey: string
  readonly client: TestClient
  readonly runner: FakeRunner
  readonly get: (path: string) => Promise<Response>
  readonly snapshot: (channel?: string) => Promise<Snapshot>
}

/** What the tests of the page's protocol share. */
export interface PageKit {
  readonly open: (options?: Partial<FakeRunnerOptions>) => Promise<House>
  readonly prompt: (house: House, content: string, fields?: object) => Promise<string>
  readonly startTurn: (
    house: House,
    content?: string,
  ) => Promise<{
    readonly origin: { readonly messageId: string; readonly turnId: string }
    readonly send: (frame: Record<string, unknown>) => void
  }>
  readonly request: (method: string, path: string, body?: object) => Promise<Response>
  readonly host: () => ContractHost
}

export const testPageProtocol = (name: string, start: () => Promise<ContractHost>): void => {
  let host: ContractHost
  let folder: string
  let sessions = 0
  const stops: (() => unknown)[] = []

  const request = (method: string, path: string, body?: object) =>
    fetch(`${host.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${host.clientToken}` },
      ...(body && { body: JSON.stringify(body) }),
    })
  const echo: Partial<FakeRunnerOptions> = {
    answer: ({ content }) => [`echo ${content}`],
    eager: true,
  }
  /** A session of its own for each test, with a runner and a client. With `{}` the test sends the runner's frames itself. */
  const open = async (options = echo): Promise<House> => {
    sessions += 1
    const session = `page-${sessions}`
    const made = await request("PUT", `/sessions/${session}`, { runnerToken: TOKEN })
    expect(made.status).toBe(201)
    const { gatewayKey = "" } = (await made.json()) as { gatewayKey?: string }
    const runner = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/${session}/ws`,
      token: TOKEN,
      stateDir: join(folder, session),
      ...options,
    })
    const client = await connectClient(host.url, host.clientToken, { session })
    stops.push(
      () => client.close(),
      () => runner.stop(),
    )
    await client.until(() => client.state("agent") !== undefined, "runner")
    const get = (path: string) => request("GET", `/sessions/${session}${path}`)
    return {
      session,
      gatewayKey,
      client,
      runner,
      get,
      snapshot: async (channel) =>
        (await (
          await get(channel === undefined ? "" : `?channel=${encodeURIComponent(channel)}`)
        ).json()) as Snapshot,
    }
  }
  /** Prompts and waits for the end of the turn; returns the prompt's id. */
  const prompt = async ({ client }: House, content: string, fields: object = {}) => {
    const { messageId } = await client.ask({ type: "prompt", content, ...fields })
    await client.until(
      () =>
        client
          .messages()
          .some((one) => one.role === "assistant" && one.promptId === messageId && one.endedAt),
      `the end of ${content}`,
    )
    return String(messageId)
  }
  /** A prompt whose turn the test plays by itself, frame by frame. */
  const startTurn = async (house: House, content = "work") => {
    const { messageId } = await house.client.ask({ type: "prompt", content })
    await untilTrue(() => house.runner.prompts.length > 0, "prompt at the runner")
    const origin = {
      channelType: "web",
      channelId: "default",
      messageId: String(messageId),
      turnId: `turn-of-${String(messageId)}`,
    }
    house.runner.send({ type: "message.create", ...origin })
    return {
      origin,
      send: (frame: Record<string, unknown>) =>
        house.runner.send({ ...frame, ...origin } as unknown as OutboundFrame),
    }
  }

  describe(name, () => {
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "page-contract-"))
      host = await start()
    })
    afterAll(async () => {
      for (const stop of stops.splice(0)) await stop()
      await host.stop()
      await rm(folder, { recursive: true, force: true })
    })

    test("a prompt bears its clientRequestId in the queue and in the conversation", async () => {
      const house = await open({ ...echo, eager: false })
      const { client } = house
      await client.ask({ type: "prompt", content: "first" })
      await untilTrue(() => house.runner.busy() === 1, "turn")
      const attachments = [
        { type: "file", mime: "text/plain", url: "data:text/plain;base64,aGk=", filename: "a.txt" },
      ]
      await client.ask({ type: "prompt", content: "next", clientRequestId: "mine-1", attachments })
      const queued = client.queue().find(({ content }) => content === "next")
      expect(queued).toMatchObject({
        clientRequestId: "mine-1",
        files: [{ mime: "text/plain", filename: "a.txt" }],
        createdAt: expect.any(Number),
      })
      const position = (type: string, text: string) =>
        client.events.findIndex(
          (event) => event["type"] === type && JSON.stringify(event).includes(text),
        )
      // The events come before the reply: a client may not wait for the reply to show the prompt as sent.
      expect(position("queue", "mine-1")).toBeLessThan(position("reply", "mine-1"))
      house.runner.work(1)
      await client.until(
        () => client.messages().some((one) => one.clientRequestId === "mine-1"),
        "the prompt in the conversation",
      )
    })

    test("each channel is a conversation with its status, its newest text and its own history", async () => {
      const house = await open()
      const { client } = house
      const side = { channelType: "web", channelId: "side" }
      for (const content of ["one", "two", "three"]) await prompt(house, content)
      await prompt(house, "beside", side)
      const whole = await house.snapshot()
      expect(whole.channels.toSorted((a, b) => a.key.localeCompare(b.key))).toMatchObject([
        { key: "web:default", status: "idle", working: 0, queued: 0, lastText: "echo three" },
        { key: "web:side", status: "idle", waiting: 0, lastText: "echo beside" },
      ])
      const live = client.events.findLast(
        (event) =>
          event["type"] === "channel" && (event["channel"] as { key: string }).key === "web:side",
      )
      expect(live?.["channel"]).toEqual(whole.channels.find(({ key }) => key === "web:side"))
      const own = await house.snapshot("web:side")
      expect(own.channel).toBe("web:side")
      expect(own.messages.map(({ channel }) => channel)).toEqual(["web:side", "web:side"])
      const around = (await client.ask({
        type: "history",
        around: whole.messages[2]?.id,
        limit: 3,
        channel: "web:default",
      })) as unknown as MessagePage
      const texts = ({ messages }: MessagePage) => messages.map(({ parts }) => parts[0]?.text)
      expect(texts(around)).toEqual(["echo one", "two", "echo two"])
      const older = await client.ask({ type: "history", before: around.before })
      expect(texts(older as unknown as MessagePage)).toEqual(["one"])
      const newer = await client.ask({
        type: "history",
        after: around.after,
        channel: "web:default",
      })
      expect(texts(newer as unknown as MessagePage)).toEqual(["three", "echo three"])
      expect(newer["after"]).toBeUndefined()
      expect(await client.ask({ type: "history", around: "missing" })).toMatchObject({
        ok: false,
        error: { code: "not-found" },
      })
    })

    test("a conversation waits for an answer, and has failed when its last turn has", async () => {
      const house = await open({})
      const { client } = house
      const { send, origin } = await startTurn(house)
      const status = () =>
        client.events.findLast((event) => event["type"] === "channel")?.["channel"] as
          | Record<string, unknown>
          | undefined
      await client.until(() => status()?.["status"] === "working", "working")
      send({ type: "question", questionId: "q1", text: "which?" })
      await client.until(() => status()?.["status"] === "waiting", "waiting")
      await client.ask({ type: "answer", id: "q1", answer: "this" })
      expect(status()).toMatchObject({ status: "working", waiting: 0 })
      send({ type: "message.finalize", reason: "error", error: "no model" })
      house.runner.send({ type: "complete", ...origin })
      await client.until(() => status()?.["status"] === "failed", "failed")
    })

    test("the output of a running tool grows by deltas, only its end is kept, and its result replaces it", async () => {
      const house = await open({})
      const { client } = house
      const { send } = await startTurn(house)
      const call = { callId: "c1", toolName: "bash" }
      send({ type: "message.part.tool-update", ...call, status: "running", startedAt: 5 })
      const part = () => client.messages().flatMap(({ parts }) => parts)[1]
      send({ type: "message.part.tool-output", callId: "c1", offset: 0, delta: "one\n" })
      send({ type: "message.part.tool-output", callId: "c1", offset: 4, delta: "two\n" })
      await client.until(() => part()?.text === "one\ntwo\n", "two lines")
      expect(client.events.filter(({ type }) => type === "part.delta")).toHaveLength(2)
      const late = await connectClient(host.url, host.clientToken, { session: house.session })
      expect(late.messages().flatMap(({ parts }) => parts)[1]?.text).toBe("one\ntwo\n")
      late.close()
      const long = "x".repeat(60_000)
      for (let index = 0; index < 3; index += 1)
        send({
          type: "message.part.tool-output",
          callId: "c1",
          offset: 8 + index * long.length,
          delta: long,
        })
      await client.until(
        () => (part()?.data as { cut?: number } | undefined)?.cut !== undefined,
        "the cut",
      )
      expect(part()?.text).toHaveLength(65_536)
      expect(part()?.data).toMatchObject({ cut: 8 + 180_000 - 65_536 })
      const details = { exit: 0, endedAt: 9, files: [{ path: "a", added: 1, removed: 2 }] }
      send({
        type: "message.part.tool-update",
        ...call,
        status: "completed",
        result: "done",
        ...details,
      })
      await client.until(() => part()?.text === undefined, "the result")
      expect(part()?.data).toMatchObject({ status: "completed", result: "done", ...details })
    })

    test("a question has its options with descriptions, and names the call and the sub-agent that ask", async () => {
      const house = await open({})
      const { send, origin } = await startTurn(house)
      const choices = [{ label: "a", description: "the first" }, { label: "b" }]
      const asker = { callId: "c1", childSessionId: "ses_child" }
      send({
        type: "question",
        questionId: "q1",
        text: "?",
        options: ["a", "b"],
        choices,
        ...asker,
      })
      send({ type: "question", questionId: "q2", text: "?", options: ["a"] })
      send({
        type: "permission",
        permissionId: "p1",
        title: "run",
        patterns: ["ls"],
        tool: "bash",
        ...asker,
      })
      const { client } = house
      await client.until(
        () => client.events.filter(({ type }) => type === "interaction").length === 3,
        "three",
      )
      const messageId = origin.turnId
      expect((await house.snapshot()).interactions).toMatchObject([
        { id: "q1", options: choices, messageId, ...asker, at: expect.any(Number) },
        { id: "q2", options: [{ label: "a" }] },
        { id: "p1", tool: "bash", messageId, ...asker },
      ])
    })

    test("a title that a person gives stays, and a channel has a title and what was seen of it", async () => {
      const house = await open()
      const { client, runner } = house
      await prompt(house, "hello")
      expect(await client.ask({ type: "rename", title: " Mine " })).toMatchObject({ ok: true })
      runner.send({ type: "title", title: "The agent's" })
      await prompt(house, "again")
      const channel = "web:default"
      await client.ask({ type: "rename", title: "Talk", channel })
      await client.ask({ type: "seen", rev: 7, channel })
      const { state, channels } = await house.snapshot()
      expect(state).toMatchObject({ title: "Mine", [`seen:${channel}`]: { rev: 7 } })
      expect(channels).toMatchObject([{ key: channel, title: "Talk" }])
      for (const type of ["rename", "seen"])
        expect(
          await client.ask({ type, title: "x", rev: 1, channel: "web:missing" }),
        ).toMatchObject({ error: { code: "not-found" } })
    })

    test("a search finds messages by a part of their text and marks where it is", async () => {
      const house = await open()
      const { client } = house
      await prompt(house, "look for the 50% HERON_x here")
      await prompt(house, "nothing")
      const found = await client.ask({ type: "search", query: "heron_X" })
      expect(found).toMatchObject({ ok: true, more: false })
      const hits = found["hits"] as SearchHit[]
      expect(hits.map(({ role }) => role)).toEqual(["assistant", "user"])
      for (const { text, marks } of hits)
        expect(marks.map(([from, to]) => text.slice(from, to))).toEqual(["HERON_x"])
      const page = await client.ask({ type: "history", around: hits[0]?.messageId, limit: 1 })
      expect(JSON.stringify(page)).toContain("HERON_x")
      // The signs of a LIKE pattern are plain text.
      for (const query of ["50_", "%nothing", "heronxx"])
        expect(await client.ask({ type: "search", query })).toMatchObject({ hits: [] })
      expect(await client.ask({ type: "search", query: "o", limit: 1 })).toMatchObject({
        more: true,
      })
    })

    test("clients see which keys are set and never a key", async () => {
      const house = await open()
      const config = {
        providerKeys: { anthropic: "sk-very-secret" },
        instructions: ["be brief"],
        customProviders: [
          {
            providerId: "mine",
            displayName: "Mine",
            baseUrl: "http://user:pass-secret@127.0.0.1/v1",
            apiKey: "other-secret",
            models: [{ id: "one" }],
          },
        ],
      }
      expect(await house.client.ask({ type: "config", config })).toMatchObject({ ok: true })
      const snapshot = await house.snapshot()
      expect(snapshot.state["config"]).toEqual({
        keys: { anthropic: true },
        instructions: ["be brief"],
        tools: {},
        mcp: [],
        providers: [{ id: "mine", name: "Mine", host: "127.0.0.1", hasKey: true, models: ["one"] }],
      })
      expect(JSON.stringify(snapshot)).not.toContain("secret")
      expect(JSON.stringify(house.client.events)).not.toContain("secret")
    })

    test("endpoints and keys are added, changed and removed one by one, and the runner gets the others with their keys", async () => {
      const { client, runner } = await open()
      const last = () =>
        runner.frames.flatMap((frame) => (frame.type === "opencode-config" ? [frame] : [])).at(-1)
      const patch = async (change: object) => {
        const reply = await client.ask({ type: "config", patch: change })
        expect(reply).toMatchObject({ ok: true })
        await untilTrue(() => last()?.requestId === reply["requestId"], "the config at the runner")
        return last()?.config
      }
      const models = [{ id: "one" }]
      const first = {
        displayName: "First",
        baseUrl: "http://first.example/v1",
        apiKey: "k1",
        models,
      }
      const second = { displayName: "Second", baseUrl: "http://second.example/v1", models }
      await patch({ customProviders: { first }, providerKeys: { anthropic: "sk-a" } })
      expect(
        await patch({ customProviders: { second }, providerKeys: { openai: "sk-o" } }),
      ).toEqual({
        customProviders: [
          { providerId: "first", ...first },
          { providerId: "second", ...second },
        ],
        providerKeys: { anthropic: "sk-a", openai: "sk-o" },
      })
      expect(await patch({ customProviders: { first: { displayName: "1st" } } })).toMatchObject({
        customProviders: [{ displayName: "1st", apiKey: "k1" }, { providerId: "second" }],
      })
      expect(
        await patch({ customProviders: { second: null }, providerKeys: { openai: null } }),
      ).toEqual({
        customProviders: [{ providerId: "first", ...first, displayName: "1st" }],
        providerKeys: { anthropic: "sk-a" },
      })
      const moved = { customProviders: { first: { baseUrl: "http://thief.example/v1" } } }
      for (const refused of [{ patch: moved }, { patch: { providerKeys: { openai: "" } } }, {}])
        expect(await client.ask({ type: "config", ...refused })).toMatchObject({
          ok: false,
          error: { code: "bad-request" },
        })
    })

    test("clients read and delete the memories that sessions share", async () => {
      const { client, runner } = await open()
      const content = `herons wade ${crypto.randomUUID()}`
      await runner.uplink.request("memory-write", { content, category: "birds" })
      const read = async () =>
        ((await client.ask({ type: "memories", query: content }))["memories"] as
          | { id: string; content: string }[]
          | undefined) ?? []
      const memory = (await read()).find((one) => one.content === content)
      expect(await client.ask({ type: "forget", id: memory?.id })).toMatchObject({ ok: true })
      expect((await read()).some((one) => one.content === content)).toBe(false)
      expect(await client.ask({ type: "forget", id: memory?.id })).toMatchObject({
        error: { code: "not-found" },
      })
      await runner.uplink.request("task-create", { title: content })
      const { tasks } = await client.ask({ type: "tasks" })
      expect(JSON.stringify(tasks)).toContain(content)
    })

    test("a diff is one file on request, and a diff that is too long names its files", async () => {
      const { client, runner } = await open()
      const file = (path: string, diff: string) => ({ path, status: "modified" as const, diff })
      const files = [file("a.ts", "+a"), file("b.ts", "+b"), file("long.ts", "x".repeat(600_000))]
      const ask = async (fields: object) => {
        const { requestId } = await client.ask({ type: "diff", ...fields })
        await untilTrue(
          () =>
            runner.frames.some((frame) => frame.type === "diff" && frame.requestId === requestId),
          "the request at the runner",
        )
        runner.send({ type: "diff", requestId: String(requestId), data: { files } })
        const answer = () =>
          client.events.find(
            (event) => event["type"] === "answer" && event["requestId"] === requestId,
          )
        await client.until(() => answer() !== undefined, "the diff")
        return answer()?.["result"]
      }
      expect(await ask({ path: "b.ts" })).toEqual({ files: [files[1]] })
      expect(await ask({})).toEqual({
        files: files.map(({ path, status }) => ({ path, status })),
        omitted: true,
        error: expect.stringContaining("ask for each file"),
      })
    })

    test("the list of sessions shows who waits, and the conversations of each session", async () => {
      const house = await open()
      await prompt(house, "hello")
      const row = async () => {
        const list = (await (await request("GET", "/sessions")).json()) as {
          sessions: readonly ListedSession[]
        }
        return list.sessions.find(({ id }) => id === house.session)
      }
      // A Durable Object reports to the list at most once a second.
      let seen = await row()
      while (seen?.channels?.[0]?.lastText !== "echo hello") seen = await row()
      expect(seen).toMatchObject({
        createdAt: expect.any(Number),
        waiting: 0,
        connected: true,
        channels: [{ key: "web:default", lastText: "echo hello" }],
      })
    })

    testHttpErrors({ open, prompt, startTurn, request, host: () => host })
    testPanels({ open, prompt, startTurn, request, host: () => host })
    testNewSessions({ open, prompt, startTurn, request, host: () => host })

    test("a reply names its model and what it has used", async () => {
      const house = await open({})
      const { send } = await startTurn(house)
      const used = { input: 5, output: 7, reasoning: 1, cacheRead: 2, cacheWrite: 3, cost: 0.5 }
      send({ type: "usage", model: "a/one", ...used })
      send({ type: "usage", model: "a/two", ...used })
      const { client } = house
      await client.until(() => client.messages().some(({ model }) => model === "a/two"), "usage")
      const message = (await house.snapshot()).messages.find(({ role }) => role === "assistant")
      expect(message).toMatchObject({ model: "a/two", usage: { input: 10, output: 14, cost: 1 } })
    })
  })
}
