/** What the page's panels, images and sub-agents need of a host. `page-contract.ts` runs these tests on both hosts. */
import { expect, test } from "bun:test"
import { jwtVerify } from "jose"
import type { Artifact, MessageWithParts, SearchHit } from "../../src/wire/clients/conversation.ts"
import type { PageKit } from "./page-contract.ts"
import { connectClient } from "./kit/client.ts"
import { connectLobby } from "./kit/lobby-client.ts"
import { untilTrue } from "../kit/until-true.ts"

/** The head of a PNG of 3 by 2 pixels. */
const PNG = Buffer.from("89504e470d0a1a0a0000000d494844520000000300000002", "hex").toString(
  "base64",
)

export const testPanels = ({ open, prompt, startTurn, request, host }: PageKit): void => {
  const textParts = (messages: readonly MessageWithParts[]) =>
    messages
      .filter(({ role }) => role === "assistant")
      .flatMap(({ parts }) => parts)
      .filter(({ kind }) => kind === "text" || kind === "reasoning")

  test("the words of a sub-agent are parts of their own, and the final text of the turn leaves them as they are", async () => {
    const house = await open({})
    const { send, origin } = await startTurn(house)
    const child = { childSessionId: "ses_1" }
    const part = (partId: string, delta: string, more = {}) =>
      send({ type: "message.part.text-delta", partId, delta, ...more })
    part("p1", "I look. ")
    part("ses_1/p2", "found ", child)
    part("ses_1/p2", "it", child)
    send({
      type: "message.part.reasoning-delta",
      partId: "ses_1/p3",
      delta: "hm",
      ...child,
    })
    part("p4", "It is there.")
    send({ type: "message.finalize", reason: "end_turn", finalText: "I look. It is there!" })
    house.runner.send({ type: "complete", ...origin })
    const { client } = house
    await client.until(() => client.messages().some(({ status }) => status === "done"), "prompt")
    await client.until(
      () => client.messages().some((one) => one.role === "assistant" && one.endedAt !== undefined),
      "the end of the turn",
    )
    const { messages, channels } = await house.snapshot()
    expect(textParts(messages).map(({ id, text, data }) => [id, text, data])).toEqual([
      ["p1", "I look. ", undefined],
      ["ses_1/p2", "found it", child],
      ["ses_1/p3", "hm", { ...child, startedAt: expect.any(Number), endedAt: expect.any(Number) }],
      ["p4", "It is there!", undefined],
    ])
    const seen = textParts(client.messages())
    expect(seen.map(({ text }) => text)).toEqual(["I look. ", "found it", "hm", "It is there!"])
    expect(channels[0]?.lastText).toBe("It is there!")
  })

  test("reasoning lasts from its first words until the same agent does something else", async () => {
    const house = await open({})
    const { send } = await startTurn(house)
    const think = (partId: string, more = {}) =>
      send({ type: "message.part.reasoning-delta", partId, delta: "hm ", ...more })
    const timesOf = async (): Promise<Readonly<Record<string, readonly string[]>>> =>
      Object.fromEntries(
        textParts((await house.snapshot()).messages).map(({ id, data }) => [
          id,
          Object.keys(data ?? {}).toSorted(),
        ]),
      )
    const { client } = house
    const arrived = (id: string) =>
      client.until(() => textParts(client.messages()).some((part) => part.id === id), id)
    think("p1")
    think("ses_1/p2", { childSessionId: "ses_1" })
    await arrived("ses_1/p2")
    // The sub-agent thinks beside the agent: neither ends the other.
    expect(await timesOf()).toEqual({
      p1: ["startedAt"],
      "ses_1/p2": ["childSessionId", "startedAt"],
    })
    think("p1")
    send({ type: "message.part.text-delta", partId: "p3", delta: "So." })
    await arrived("p3")
    expect(await timesOf()).toMatchObject({
      p1: ["endedAt", "startedAt"],
      "ses_1/p2": ["childSessionId", "startedAt"],
    })
    const seen = textParts(client.messages()).find(({ id }) => id === "p1")
    expect(seen?.data).toEqual({ startedAt: expect.any(Number), endedAt: expect.any(Number) })
    // The end of the turn ends the rest.
    think("p4")
    send({ type: "message.finalize", reason: "end_turn" })
    await client.until(
      () => client.messages().some((one) => one.role === "assistant" && one.endedAt !== undefined),
      "the end of the turn",
    )
    expect(await timesOf()).toEqual({
      p1: ["endedAt", "startedAt"],
      "ses_1/p2": ["childSessionId", "endedAt", "startedAt"],
      p3: [],
      p4: ["endedAt", "startedAt"],
    })
  })

  test("clients see how full the context of a channel is; a sub-agent has a context of its own", async () => {
    const house = await open({})
    const { client, runner } = house
    runner.send({
      type: "models",
      models: [{ provider: "a", models: [{ id: "x/one", name: "One", context: 1000 }] }],
      default: "a/x/one",
    })
    const { send } = await startTurn(house)
    const usage = { input: 10, output: 20, reasoning: 1, cacheRead: 300, cacheWrite: 4 }
    send({ type: "usage", model: "a/x/one", ...usage })
    await client.until(() => client.state("context:web:default") !== undefined, "context")
    send({ type: "usage", model: "a/x/one", ...usage, input: 900, childSessionId: "ses_1" })
    await client.until(() => client.events.filter(({ type }) => type === "usage").length > 1, "two")
    const { state, usage: sum } = await house.snapshot()
    expect(state).toMatchObject({
      "context:web:default": { used: 335, limit: 1000 },
      model: { default: "a/x/one" },
    })
    expect(sum.input).toBe(910)
  })

  test("clients see the services of the sandbox, and a config reports under its request when it is applied", async () => {
    const { client, runner } = await open({})
    runner.send({ type: "services", vscode: "starting", vnc: "off", terminal: "ready" })
    runner.send({
      type: "services",
      vscode: "ready",
      vnc: "off",
      terminal: "ready",
      lacks: ["Xvfb"],
    })
    const services = { vscode: "ready", vnc: "off", terminal: "ready", lacks: ["Xvfb"] }
    await client.until(() => Bun.deepEquals(client.state("services"), services), "services")
    const { requestId } = await client.ask({
      type: "config",
      config: { instructions: ["be brief"] },
    })
    await untilTrue(
      () =>
        runner.frames.some(
          (frame) => frame.type === "opencode-config" && frame.requestId === requestId,
        ),
      "the config at the runner",
    )
    runner.send({
      type: "opencode-config-applied",
      success: true,
      restarted: false,
      requestId: String(requestId),
    })
    await client.until(
      () =>
        (client.state("config-applied") as { requestId?: unknown } | undefined)?.requestId ===
        requestId,
      "the report",
    )
  })

  test("a client opens what the sandbox has by a link that its gateway accepts", async () => {
    const house = await open({ gatewayUrl: "https://box.example" })
    const { client, runner, session } = house
    expect(await client.ask({ type: "open", what: "tunnel", name: "web" })).toMatchObject({
      error: { code: "not-found" },
    })
    runner.send({
      type: "tunnels",
      tunnels: [{ name: "web", port: 3000, path: "/t/web/" }] as never,
    })
    await client.until(() => client.state("tunnels") !== undefined, "tunnels")
    const opened = await client.ask({ type: "open", what: "tunnel", name: "web" })
    expect(opened).toMatchObject({ ok: true })
    const url = new URL(String(opened["url"]))
    expect([url.origin, url.pathname]).toEqual(["https://box.example", "/t/web/"])
    const { payload } = await jwtVerify(
      url.searchParams.get("token") ?? "",
      new TextEncoder().encode(house.gatewayKey),
    )
    expect(payload).toMatchObject({ sid: session, path: "/t/web/" })
    expect(await client.ask({ type: "open", what: "vscode" })).toMatchObject({ ok: true })
    for (const wrong of [{ what: "vscode", name: "web" }, { what: "tunnel" }, { what: "else" }])
      expect(await client.ask({ type: "open", ...wrong })).toMatchObject({
        error: { code: "bad-request" },
      })
    await runner.stop()
    await client.until(
      () => (client.state("runner") as { connected?: boolean }).connected === false,
      "the runner is away",
    )
    expect(await client.ask({ type: "open", what: "vscode" })).toMatchObject({
      error: { code: "no-runner" },
    })
  })

  test("a search over sessions finds messages of those that the caller may read, and sessions by their title", async () => {
    const [one, two] = [await open(), await open()]
    await prompt(one, "a bittern booms")
    await prompt(two, "the Bittern hides")
    await one.client.ask({ type: "rename", title: "Bitterns of the marsh" })
    const find = async (token: string, query: string) => {
      const response = await fetch(`${host().url}/search?q=${encodeURIComponent(query)}`, {
        headers: { Authorization: `Bearer ${token}` },
      })
      return (await response.json()) as {
        sessions: readonly { id: string }[]
        hits: readonly (SearchHit & { session: string })[]
      }
    }
    const { hits } = await find(host().clientToken, "BITTERN")
    expect(hits.map(({ session, text }) => [session, text])).toEqual([
      [two.session, "echo the Bittern hides"],
      [two.session, "the Bittern hides"],
      [one.session, "echo a bittern booms"],
      [one.session, "a bittern booms"],
    ])
    const titled = async () => (await find(host().clientToken, "of the marsh")).sessions
    // A Durable Object reports its title to the list at most once a second.
    while ((await titled()).length === 0);
    expect((await titled()).map(({ id }) => id)).toEqual([one.session])
    const made = await request("POST", "/keys?owner=user:eve", { scopes: ["sessions:read"] })
    const { key } = (await made.json()) as { key: string }
    expect(await find(key, "bittern")).toMatchObject({ sessions: [], hits: [] })
    expect((await request("GET", "/search")).status).toBe(400)
  })

  test("the lobby shows new sessions, their conversations and their end, and to a person only their own", async () => {
    const { url, clientToken, disturbLobby } = host()
    const mine = await request("POST", "/keys?owner=user:ada", {
      scopes: ["sessions:read", "sessions:write"],
    })
    const { key } = (await mine.json()) as { key: string }
    const all = await connectLobby(url, clientToken)
    const own = await connectLobby(url, key)
    expect(own.sessions()).toEqual([])
    const house = await open()
    await untilTrue(() => all.find(house.session)?.connected === true, "the new session")
    await disturbLobby?.()
    await prompt(house, "hello lobby")
    await untilTrue(
      () => all.find(house.session)?.channels?.[0]?.lastText === "echo hello lobby",
      "the newest words",
    )
    await house.client.ask({ type: "rename", title: "Waders" })
    await house.client.ask({ type: "end" })
    await untilTrue(() => all.find(house.session)?.status === "ended", "the end")
    expect(all.find(house.session)).toMatchObject({ title: "Waders", waiting: 0, working: 0 })
    const made = await fetch(`${url}/sessions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({ title: "Ada's" }),
    })
    const { session } = (await made.json()) as { session: string }
    await untilTrue(() => own.find(session)?.title === "Ada's", "the person's own session")
    expect(own.sessions().map(({ id }) => id)).toEqual([session])
    const revoked = await request("DELETE", `/keys/${key.split("_")[1]}?owner=user:ada`)
    expect(revoked.status).toBe(200)
    await untilTrue(() => own.closeCode() === 1008, "the end of the access")
    all.close()
    const knock = (token: string) =>
      fetch(`${url}/lobby/ws`, { headers: { Authorization: `Bearer ${token}` } })
    expect([(await knock("wrong")).status, (await knock(clientToken)).status]).toEqual([401, 426])
  })

  test("a session that one client ends is ended for another client and for its runner", async () => {
    const house = await open()
    const other = await connectClient(host().url, host().clientToken, { session: house.session })
    expect(await house.client.ask({ type: "end" })).toMatchObject({ ok: true })
    await other.until(
      () => (other.state("session") as { status?: string } | undefined)?.status === "ended",
      "the end",
    )
    await untilTrue(() => house.runner.endings.length > 0, "the end of the runner")
    expect(await other.ask({ type: "prompt", content: "more" })).toMatchObject({
      error: { code: "too-late" },
    })
    other.close()
  })

  test("an image of a prompt stays in the conversation with its size, and other files are deleted", async () => {
    const house = await open()
    const attachments = [
      { type: "file", mime: "text/plain", url: "data:text/plain;base64,aGk=", filename: "a.txt" },
      { type: "file", mime: "image/png", url: `data:image/png;base64,${PNG}`, filename: "b.png" },
    ]
    const id = await prompt(house, "look", { attachments })
    const { messages, artifacts } = await house.snapshot()
    expect(artifacts).toMatchObject([
      { mime: "image/png", description: "b.png", messageId: id, width: 3, height: 2, bytes: 24 },
    ])
    const files = messages.find((message) => message.id === id)?.parts[1]?.data
    expect(files).toEqual({
      files: [
        { mime: "text/plain", filename: "a.txt" },
        { mime: "image/png", filename: "b.png", artifact: artifacts[0]?.id },
      ],
    })
    const image = await house.get(`/artifacts/${artifacts[0]?.id}`)
    expect(Buffer.from(await image.arrayBuffer()).toString("base64")).toBe(PNG)
    expect(house.runner.prompts[0]?.attachments?.map(({ url }) => url)).toEqual(
      attachments.map(({ url }) => url),
    )
  })

  test("an image of the agent names its message, its call and its size", async () => {
    const house = await open({})
    const { send, origin } = await startTurn(house)
    send({ type: "screenshot", data: PNG, description: "the page", callId: "c1" })
    send({ type: "screenshot", data: "bm90IGFuIGltYWdl", description: "broken" })
    const artifacts = () =>
      house.client.events.flatMap((event) =>
        event["type"] === "artifact" ? [event["artifact"] as Artifact] : [],
      )
    await house.client.until(() => artifacts().length === 2, "two images")
    const messageId = origin.turnId
    expect(artifacts()[0]).toMatchObject({ messageId, callId: "c1", width: 3, height: 2 })
    expect(artifacts()[1]).toMatchObject({ messageId, description: "broken" })
    expect(artifacts()[1]).not.toHaveProperty("width")
  })

  test("a search reads quotes as text, finds letters beyond ASCII in any case, words that still stream, and no removed message", async () => {
    const house = await open({})
    const { client, runner } = house
    const { send, origin } = await startTurn(house, 'say "ÄRGER" NEAR(b*) or not')
    send({ type: "message.part.text-delta", partId: "p1", delta: "the kingfisher dives" })
    const find = async (query: string) => {
      const reply = await client.ask({ type: "search", query })
      expect(reply).toMatchObject({ ok: true })
      return (reply["hits"] as SearchHit[]).map(({ role }) => role)
    }
    for (const query of ['"ärger" near', "near(b*)", "ger", "Ä", '"'])
      expect([query, await find(query)]).toEqual([query, ["user"]])
    await client.until(() => client.events.some(({ type }) => type === "part"), "words")
    expect(await find("KINGFISHER")).toEqual(["assistant"])
    send({ type: "message.finalize", reason: "end_turn", finalText: "the kingfisher dived" })
    runner.send({ type: "complete", ...origin })
    await client.until(() => client.queue().length === 0, "the end of the turn")
    expect([await find("fisher dived"), await find("fisher dives")]).toEqual([["assistant"], []])
    runner.send({ type: "reverted", messageIds: [origin.messageId] })
    await client.until(() => client.messages().length === 0, "nothing left")
    expect([await find("kingfisher"), await find("near(b*)")]).toEqual([[], []])
  })
}
