/** Rows of the tools for other sessions. */
import { expect } from "bun:test"
import { tool, text } from "../../kit/model.ts"
import { type House, OTHER_TITLE } from "../kit/house.ts"
import { type Rows, succeed, untilTrue } from "../kit/row.ts"

interface Shown {
  readonly messages: readonly {
    readonly role: string
    readonly parts: readonly { text?: string }[]
  }[]
  readonly state: Readonly<Record<string, unknown>>
}

const shownOf = async ({ api }: House, session: string): Promise<Shown> =>
  (await (await api("GET", `/sessions/${session}`)).json()) as Shown

const textsOf = ({ messages }: Shown, role: string): readonly string[] =>
  messages
    .filter((message) => message.role === role)
    .map(({ parts }) => parts.map((part) => part.text ?? "").join(""))

/** Processes whose environment names the child: its runner and its OpenCode. */
const processesOf = async (session: string): Promise<number> => {
  const folders = new Bun.Glob("[0-9]*").scanSync({ cwd: "/proc", onlyFiles: false })
  const environments = await Promise.all(
    [...folders].map((pid) =>
      Bun.file(`/proc/${pid}/environ`)
        .text()
        .catch(() => ""),
    ),
  )
  return environments.filter((environment) => environment.includes(session)).length
}

const spawnChild = async (house: House, name: string): Promise<string> => {
  house.model.on(name, [
    tool("write", { filePath: "nest.txt", content: name }),
    text(`The child has done ${name}.`),
  ])
  const { shown } = await succeed(house, "spawn_session", {
    task: `Please do @@${name}@@`,
    workspace: name,
  })
  const id = /child-[\w.:-]+[\w]/.exec(shown)?.[0] ?? ""
  expect(id).not.toBe("")
  return id
}

export const sessionRows: Rows<
  | "spawn_session"
  | "list_sessions"
  | "terminate_session"
  | "get_session_status"
  | "send_message"
  | "read_messages"
  | "forward_messages"
  | "notify_parent"
  | "wait_for_event"
> = {
  spawn_session: async (house) => {
    const child = await spawnChild(house, "spawned")
    const done = "The child has done spawned."
    await untilTrue(
      async () => textsOf(await shownOf(house, child), "assistant").includes(done),
      "answer of the child",
      90_000,
    )
    expect(await processesOf(child)).toBeGreaterThan(1)
    // The child reports back: its parent gets its answer as a prompt.
    const isReport = (said: string) =>
      said.startsWith(`Child session ${child} `) &&
      said.endsWith(`has finished its work. Its answer:\n\n${done}`)
    await untilTrue(
      async () => textsOf(await shownOf(house, "main"), "user").some(isReport),
      "report of the child at its parent",
    )
    await house.api("DELETE", `/sessions/${child}`)
  },
  list_sessions: async (house) => {
    const child = await spawnChild(house, "listed")
    const { read } = await succeed(house, "list_sessions", {})
    expect(read).toContain(`"id":"${child}"`)
    expect(read).toContain('"title":"listed"')
    await house.api("DELETE", `/sessions/${child}`)
  },
  terminate_session: async (house) => {
    // A session that is not a child is not ended.
    const refused = await house.call("terminate_session", { childSessionId: "other" })
    expect(refused.status).toBe("error")
    const stillThere = { content: "Are you there?" }
    expect((await house.api("POST", "/sessions/other/prompt", stillThere)).status).toBe(200)
    const child = await spawnChild(house, "ended")
    await untilTrue(async () => (await processesOf(child)) > 0, "process of the child")
    await succeed(house, "terminate_session", { childSessionId: child })
    await untilTrue(async () => (await processesOf(child)) === 0, "end of the child's processes")
    const late = await house.api("POST", `/sessions/${child}/prompt`, { content: "more" })
    expect(late.status).toBe(409)
  },
  get_session_status: async (house) => {
    const { read } = await succeed(house, "get_session_status", { sessionId: "other" })
    expect(read).toContain(OTHER_TITLE)
    expect(read).toContain('"connected": true')
  },
  send_message: async (house) => {
    const content = "Come to the pond."
    await succeed(house, "send_message", { sessionId: "other", content })
    await untilTrue(
      () => house.other.prompts.some((prompt) => prompt.content === content),
      "prompt of the other session",
    )
    expect(textsOf(await shownOf(house, "other"), "user")).toContain(content)
  },
  read_messages: async (house) => {
    await house.tell("other", "Where is the frog?")
    const answer = "The other session heard: Where is the frog?"
    await untilTrue(
      async () => textsOf(await shownOf(house, "other"), "assistant").includes(answer),
      "answer of the other session",
    )
    const { read } = await succeed(house, "read_messages", { sessionId: "other" })
    expect(read).toContain(answer)
  },
  forward_messages: async (house) => {
    await house.tell("other", "Forward this.")
    const answer = "The other session heard: Forward this."
    await untilTrue(
      async () => textsOf(await shownOf(house, "other"), "assistant").includes(answer),
      "answer of the other session",
    )
    await succeed(house, "forward_messages", { sessionId: "other", limit: 2 })
    await house.client.until(
      () =>
        house.client
          .messages()
          .some(
            ({ role, parts }) =>
              role === "system" && parts.some((part) => part.text?.includes(answer) === true),
          ),
      "forwarded message at the client",
    )
  },
  notify_parent: async (house) => {
    const message = "The nest is finished."
    await succeed(house, "notify_parent", { message })
    await untilTrue(
      () => house.other.prompts.some(({ content }) => content === message),
      "prompt of the parent",
    )
    expect(textsOf(await shownOf(house, "other"), "user")).toContain(message)
  },
  wait_for_event: async (house) => {
    const { promptId } = await succeed(house, "wait_for_event", { reason: "The frog." })
    expect(house.client.answerTo(promptId)).toBe("That was wait_for_event.")
    house.model.on("event", [text("I am awake.")])
    await house.other.uplink.request("session-message", {
      targetSessionId: "main",
      content: "The frog jumped. @@event@@",
    })
    await house.client.until(
      () =>
        house.client
          .messages()
          .some(({ parts }) => parts.some((part) => part.text === "I am awake.")),
      "turn that the event starts",
    )
  },
}
