/** The reducer's outbox, window and gap, and what is derived from a view: turns, dock, status, sidebar, tool words. */
import { describe, expect, test } from "bun:test"
import { commandOf, createDock, dockOf } from "../../../src/hub/view/dock.ts"
import { unanswered } from "../../../src/hub/view/outbox.ts"
import { type ListedSession, sidebarGroups } from "../../../src/hub/view/sidebar-rows.ts"
import { statusOf } from "../../../src/hub/view/status-words.ts"
import { step } from "../../../src/hub/view/step.ts"
import { activityOf, lookupWords, toolOf, toolWords } from "../../../src/hub/view/tool-words.ts"
import { blocksOf, createTurns, pendingPrompts } from "../../../src/hub/view/turns.ts"
import { type Action, emptyView, type View } from "../../../src/hub/view/view.ts"
import type {
  ChannelSummary,
  MessagePart,
  MessageWithParts,
  NumberedEvent,
  QueuedPrompt,
  ToolData,
} from "../../../src/wire/clients/conversation.ts"

const MAIN = "web:default"
const run = (view: View, ...actions: readonly Action[]): View => actions.reduce(step, view)
const event = (one: NumberedEvent): Action => ({ type: "event", event: one })
const messageOf = (id: string, place: number, fields: Partial<MessageWithParts> = {}) => ({
  id,
  place,
  role: "assistant" as const,
  channel: MAIN,
  status: "streaming" as const,
  createdAt: place,
  ...fields,
})
const put = (id: string, place: number, fields: Partial<MessageWithParts> = {}): Action =>
  event({ type: "message", rev: place, message: messageOf(id, place, fields) })
const putPart = (messageId: string, part: MessagePart): Action =>
  event({ type: "part", rev: part.place, messageId, part })
const ask = (clientRequestId: string, content = "hello"): Action => ({
  type: "ask",
  clientRequestId,
  message: { type: "prompt", content, clientRequestId },
  at: 1,
})
const queued = (fields: Partial<QueuedPrompt>): QueuedPrompt => ({
  id: "p",
  channel: MAIN,
  status: "queued",
  content: "hello",
  createdAt: 1,
  ...fields,
})
const tool = (callId: string, fields: Partial<ToolData> = {}): ToolData => ({
  callId,
  toolName: "bash",
  status: "completed",
  ...fields,
})
const toolPart = (place: number, data: ToolData, text?: string): MessagePart => ({
  id: data.childSessionId === undefined ? data.callId : `${data.childSessionId}/${data.callId}`,
  place,
  kind: "tool",
  data,
  ...(text !== undefined && { text }),
})
const reply = (parts: MessagePart[]): MessageWithParts => ({ ...messageOf("m", 1), parts })

describe("the outbox", () => {
  test("a prompt leaves the outbox when the queue bears its clientRequestId, and the later reply changes nothing", () => {
    const sent = run(emptyView, ask("r1"))
    expect(pendingPrompts(sent, MAIN)).toHaveLength(1)
    const arrived = run(
      sent,
      event({ type: "queue", rev: 1, queue: [queued({ clientRequestId: "r1" })] }),
    )
    expect(arrived.outbox).toEqual([])
    const replied = run(arrived, { type: "reply", clientRequestId: "r1", reply: { ok: true } })
    expect(replied).toBe(arrived)
  })

  test("a prompt leaves the outbox when its message or its reply comes first", () => {
    const byMessage = run(
      emptyView,
      ask("r1"),
      put("p", 1, { role: "user", clientRequestId: "r1" }),
    )
    expect(byMessage.outbox).toEqual([])
    const byReply = run(emptyView, ask("r1"), {
      type: "reply",
      clientRequestId: "r1",
      reply: { ok: true, messageId: "p" },
    })
    expect(byReply.outbox).toEqual([])
  })

  test("two prompts with the same text are matched by their ids", () => {
    const view = run(
      emptyView,
      ask("r1", "same"),
      ask("r2", "same"),
      put("p2", 1, { role: "user", clientRequestId: "r2" }),
    )
    expect(view.outbox.map(({ clientRequestId }) => clientRequestId)).toEqual(["r1"])
  })

  test("prompts of an earlier page come back in their order, except those that have arrived; a refused one stays refused", () => {
    const error = { code: "too-many", message: "100 prompts are queued already" } as const
    const before = run(emptyView, ask("r1", "first"), ask("r2", "second"), ask("r3", "third"), {
      type: "reply",
      clientRequestId: "r3",
      reply: { ok: false, error },
    }).outbox.map((pending, index) => ({ ...pending, at: index - 3 }))
    const after = run(
      emptyView,
      put("p1", 1, { role: "user", clientRequestId: "r1" }),
      ask("r4", "typed before the store was read"),
      { type: "restore", pending: before },
      { type: "restore", pending: before },
    )
    expect(after.outbox.map(({ clientRequestId }) => clientRequestId)).toEqual(["r2", "r3", "r4"])
    expect(unanswered(after).map(({ clientRequestId }) => clientRequestId)).toEqual(["r2", "r4"])
  })

  test("a refused prompt keeps its text and its error until it is dropped, and is not sent again", () => {
    const error = { code: "too-many", message: "100 prompts are queued already" } as const
    const refused = run(emptyView, ask("r1"), {
      type: "reply",
      clientRequestId: "r1",
      reply: { ok: false, error },
    })
    expect(refused.outbox).toMatchObject([{ message: { content: "hello" }, error }])
    expect(unanswered(refused)).toEqual([])
    expect(run(refused, { type: "forget", clientRequestId: "r1" }).outbox).toEqual([])
  })

  test("a prompt without a reply counts a try for every connection", () => {
    const link = (state: "open"): Action => ({ type: "link", link: { state } })
    const view = run(emptyView, ask("r1"), link("open"), link("open"))
    expect(unanswered(view)).toMatchObject([{ clientRequestId: "r1", tries: 2 }])
  })
})

describe("the messages", () => {
  test("a delta beyond the known text sets the gap and drops the cursor, so that a snapshot follows", () => {
    const view = run(
      emptyView,
      put("m", 1),
      putPart("m", { id: "t", place: 2, kind: "text", text: "ab" }),
      event({ type: "part.delta", rev: 3, messageId: "m", partId: "t", offset: 5, text: "x" }),
    )
    expect(view).toMatchObject({ gap: true, cursor: undefined })
  })

  test("a message that has ended does not stream again, and untouched messages keep their identity", () => {
    const view = run(emptyView, put("a", 1, { status: "done" }), put("b", 2))
    const later = run(
      view,
      put("a", 1),
      putPart("b", { id: "t", place: 3, kind: "text", text: "x" }),
    )
    expect(later.messages.get("a")).toBe(view.messages.get("a"))
    expect(later.messages.get("b")).not.toBe(view.messages.get("b"))
  })

  test("messages and parts stand in the order of their places, however they arrive", () => {
    const view = run(
      emptyView,
      put("b", 5),
      put("a", 2),
      putPart("a", { id: "second", place: 9, kind: "text", text: "2" }),
      putPart("a", { id: "first", place: 3, kind: "text", text: "1" }),
    )
    expect(view.order).toEqual(["a", "b"])
    expect(view.messages.get("a")?.parts.map(({ id }) => id)).toEqual(["first", "second"])
  })

  test("a page of the history adds no newer messages until the newer pages are read", () => {
    const page = { messages: [{ ...messageOf("old", 3), parts: [] }], before: 3, after: 3 }
    const around = run(emptyView, put("new", 50), { type: "around", page }, put("newest", 60))
    expect(around.order).toEqual(["old"])
    const newer = { messages: [{ ...messageOf("new", 50), parts: [] }] }
    const whole = run(around, { type: "newer", page: newer }, put("newest", 60))
    expect(whole.order).toEqual(["old", "new", "newest"])
    const older = { messages: [{ ...messageOf("oldest", 1), parts: [] }] }
    expect(run(whole, { type: "older", page: older })).toMatchObject({
      order: ["oldest", "old", "new", "newest"],
      before: undefined,
    })
  })
})

describe("the turns", () => {
  test("replies join the turn of their prompt, and an error that is reported twice is shown once", () => {
    const turnsOf = createTurns()
    const view = run(
      emptyView,
      put("p1", 1, { role: "user", status: "done", promptId: "p1" }),
      put("m1", 2, { promptId: "p1", status: "error", error: "overloaded" }),
      put("p1/error", 3, { role: "system", status: "error", promptId: "p1", error: "overloaded" }),
      put("other", 4, { channel: "telegram:1" }),
    )
    const turns = turnsOf(view, MAIN)
    expect(turns).toMatchObject([{ id: "p1", prompt: { id: "p1" }, replies: [{ id: "m1" }] }])
    const later = turnsOf(run(view, put("p2", 5, { role: "user", promptId: "p2" })), MAIN)
    expect(later[0]).toBe(turns[0])
    expect(later).toHaveLength(2)
  })

  test("the work of two sub-agents stands in the task that started each", () => {
    const task = (callId: string, child: string) => tool(callId, { toolName: "task", child })
    const blocks = blocksOf(
      reply([
        toolPart(1, task("t1", "one")),
        toolPart(2, task("t2", "two")),
        toolPart(3, tool("c", { childSessionId: "two" })),
        { id: "one/text", place: 4, kind: "text", text: "hi", data: { childSessionId: "one" } },
      ]),
    )
    expect(blocks).toMatchObject([
      { type: "task", tool: { callId: "t1" }, blocks: [{ type: "text", text: "hi" }] },
      { type: "task", tool: { callId: "t2" }, blocks: [{ type: "tool", tool: { callId: "c" } }] },
    ])
  })

  test("reasoning says how long it took, and the look-ups of a sub-agent keep their own rows", () => {
    const read = (id: string) => tool(id, { toolName: "read", childSessionId: "ses_1" })
    const blocks = blocksOf(
      reply([
        {
          id: "r1",
          place: 1,
          kind: "reasoning",
          text: "hm",
          data: { startedAt: 10, endedAt: 6010 },
        },
        { id: "r2", place: 2, kind: "reasoning", text: "hm", data: { startedAt: 10 } },
        toolPart(3, tool("t1", { toolName: "task", child: "ses_1" })),
        toolPart(4, read("a")),
        toolPart(5, read("b")),
      ]),
    )
    expect(blocks).toMatchObject([
      { type: "reasoning", tookMs: 6000 },
      { type: "reasoning", text: "hm" },
      { type: "task", blocks: [{ tool: { callId: "a" } }, { tool: { callId: "b" } }] },
    ])
    expect(blocks[1]).not.toHaveProperty("tookMs")
  })

  test("look-ups in a row are one block, a question is an asked block and todowrite has none", () => {
    const read = (id: string) => tool(id, { toolName: "read" })
    const blocks = blocksOf(
      reply([
        toolPart(1, read("a")),
        toolPart(2, tool("b", { toolName: "grep" })),
        toolPart(3, tool("todo", { toolName: "todowrite" })),
        toolPart(4, tool("q", { toolName: "question" })),
        toolPart(5, tool("run", { status: "running" }), "output so far"),
        {
          id: "todo",
          place: 6,
          kind: "todo",
          data: { items: [{ content: "x", status: "pending" }, 7] },
        },
      ]),
    )
    expect(blocks).toMatchObject([
      { type: "lookups", tools: [{ callId: "a" }, { callId: "b" }] },
      { type: "asked" },
      { type: "tool", output: "output so far" },
      { type: "plan", items: [{ content: "x" }] },
    ])
  })
})

describe("the dock", () => {
  test("questions of every channel are in the dock, those of the open conversation first", () => {
    const question = (id: string, channel: string) =>
      event({
        type: "interaction",
        rev: 1,
        interaction: { id, kind: "question", channel, status: "open", at: 1 },
      })
    const view = run(emptyView, question("a", "telegram:1"), question("b", MAIN))
    expect(dockOf(view, MAIN).interactions.map(({ id }) => id)).toEqual(["b", "a"])
  })

  test("words that stream in leave the dock the same object, and a new question does not", () => {
    const dock = createDock()
    const working = run(
      emptyView,
      event({ type: "queue", rev: 1, queue: [queued({ status: "processing" })] }),
      put("m", 2),
      putPart("m", { id: "t", place: 3, kind: "text", text: "so" }),
    )
    const before = dock(working, MAIN)
    const grown = run(working, putPart("m", { id: "t", place: 3, kind: "text", text: "so it is" }))
    expect(dock(grown, MAIN)).toBe(before)
    const asked = run(
      grown,
      event({
        type: "interaction",
        rev: 4,
        interaction: { id: "q", kind: "question", channel: MAIN, status: "open", at: 1 },
      }),
    )
    expect(dock(asked, MAIN)).not.toBe(before)
    expect(dock(asked, MAIN)).toEqual(dockOf(asked, MAIN))
    expect(dock(asked, MAIN).queue).toBe(before.queue)
  })

  test("a permission shows the command that waits for it, unless its pattern is the command", () => {
    const args = { command: "rm -rf /var/cache/*" }
    const view = run(
      emptyView,
      put("m", 1),
      putPart("m", toolPart(2, tool("c", { status: "running", args }))),
    )
    const permission = {
      id: "p",
      kind: "permission" as const,
      channel: MAIN,
      status: "open" as const,
      at: 1,
      messageId: "m",
      callId: "c",
    }
    expect(commandOf(view, { ...permission, patterns: ["/var/cache/*"] })).toBe(args.command)
    expect(commandOf(view, { ...permission, patterns: [args.command] })).toBeUndefined()
    expect(commandOf(view, { ...permission, callId: "other" })).toBeUndefined()
    expect(commandOf(emptyView, permission)).toBeUndefined()
  })

  test("the status names the running tool, then the writing, and says when the sandbox is away", () => {
    const working = run(
      emptyView,
      event({ type: "queue", rev: 1, queue: [queued({ status: "processing" })] }),
      put("m", 2),
    )
    expect(statusOf(working, MAIN)).toMatchObject({ kind: "working", sentence: "Thinking" })
    const args = { command: "npm test", description: "Run the tests" }
    const busy = run(working, putPart("m", toolPart(3, tool("c", { status: "running", args }))))
    expect(statusOf(busy, MAIN)).toMatchObject({ sentence: "Run the tests", since: 2 })
    const writing = run(working, putPart("m", { id: "t", place: 4, kind: "text", text: "so" }))
    expect(statusOf(writing, MAIN)).toMatchObject({ sentence: "Writing" })
    const waiting = run(emptyView, event({ type: "queue", rev: 1, queue: [queued({})] }))
    expect(dockOf(waiting, MAIN)).toMatchObject({ status: { kind: "away" }, isAway: true })
    expect(statusOf(emptyView, MAIN)).toBeUndefined()
  })
})

describe("the sidebar", () => {
  const channel = (key: string, fields: Partial<ChannelSummary> = {}): ChannelSummary => ({
    key,
    status: "idle",
    working: 0,
    queued: 0,
    waiting: 0,
    updatedAt: 1000,
    rev: 5,
    ...fields,
  })
  const session = (id: string, fields: Partial<ListedSession> = {}): ListedSession => ({
    id,
    title: id,
    status: "running",
    ...fields,
  })

  test("conversations are grouped by day, newest first, with child sessions below their parent", () => {
    const today = 10 * 86_400_000
    const groups = sidebarGroups({
      today,
      seen: () => 9,
      sessions: [
        session("old", { channels: [channel(MAIN, { updatedAt: 1 })] }),
        session("a", { channels: [channel(MAIN, { updatedAt: today + 1 })] }),
        session("child", { parent: "a", channels: [channel(MAIN, { updatedAt: 5 })] }),
        session("b", { channels: [channel(MAIN, { updatedAt: today - 1 })] }),
      ],
    })
    expect(
      groups.map(({ label, rows }) => [label, rows.map((row) => [row.session, row.depth])]),
    ).toEqual([
      [
        "Today",
        [
          ["a", 0],
          ["child", 1],
        ],
      ],
      ["Yesterday", [["b", 0]]],
      ["Earlier", [["old", 0]]],
    ])
  })

  test("a row says what its conversation waits for, and what was not seen", () => {
    const stateOf = (fields: Partial<ChannelSummary>, of: Partial<ListedSession> = {}, seen = 9) =>
      sidebarGroups({
        today: 0,
        seen: () => seen,
        sessions: [session("s", { channels: [channel("web:1", fields)], ...of })],
      })[0]?.rows[0]?.state
    expect(stateOf({ status: "waiting" })).toBe("waits")
    expect(stateOf({ status: "working" })).toBe("working")
    expect(stateOf({ status: "failed" })).toBe("failed")
    expect(stateOf({}, {}, 4)).toBe("unseen")
    expect(stateOf({})).toBe("idle")
    expect(stateOf({}, { connected: false })).toBe("away")
    expect(stateOf({}, { status: "ended" })).toBe("ended")
  })
})

describe("the words of a tool", () => {
  test("a known tool has a verb and a subject, an unknown one its name and its arguments", () => {
    expect(toolWords(tool("c", { args: { command: "ls -l" } }))).toEqual({
      kind: "command",
      verb: "Ran",
      subject: "ls -l",
    })
    expect(toolWords(tool("c", { toolName: "constructor", args: { a: 1 } }))).toEqual({
      kind: "other",
      verb: "constructor",
      subject: '{"a":1}',
    })
  })

  test("data that is not a tool call is not shown as one", () => {
    expect(toolOf({ id: "x", place: 1, kind: "tool", data: { callId: 7 } })).toBeUndefined()
    expect(toolOf({ id: "x", place: 1, kind: "tool", data: null })).toBeUndefined()
  })

  test("finished look-ups are counted by kind", () => {
    const of = (toolName: string) => tool("c", { toolName })
    expect(lookupWords([of("read"), of("read"), of("grep")])).toBe("Read 2 files, searched once")
    expect(activityOf(tool("c", { toolName: "read", args: { filePath: "a.ts" } }))).toBe(
      "Reading a.ts",
    )
  })
})
