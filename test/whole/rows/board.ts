/** Rows of the tools for what sessions share: memories, mailbox, tasks, personas. */
import { expect } from "bun:test"
import type { House } from "../kit/house.ts"
import { type Rows, succeed } from "../kit/row.ts"

const remember = async ({ other }: House, content: string, category: string): Promise<string> => {
  const { memory } = await other.uplink.request("memory-write", { content, category })
  return String((memory as { id: unknown }).id)
}

const memoriesOf = async ({ other }: House, category: string): Promise<readonly string[]> => {
  const { memories } = await other.uplink.request("memory-read", { category })
  return memories.map((memory) => String((memory as { content: unknown }).content))
}

const mailOf = async ({ other }: House): Promise<string> =>
  JSON.stringify((await other.uplink.request("mailbox-check", {})).messages)

const tasksOf = async ({ other }: House) =>
  (await other.uplink.request("task-list", {})).tasks as readonly Record<string, unknown>[]

const addTask = async ({ other }: House, title: string, sessionId?: string): Promise<string> => {
  const { task } = await other.uplink.request("task-create", {
    title,
    ...(sessionId !== undefined && { sessionId }),
  })
  return String((task as { id: unknown }).id)
}

export const boardRows: Rows<
  | "memory_write"
  | "memory_read"
  | "memory_delete"
  | "memory_prune"
  | "emit_notification"
  | "mailbox_send"
  | "mailbox_check"
  | "task_create"
  | "task_list"
  | "task_update"
  | "my_tasks"
  | "list_personas"
> = {
  memory_write: async (house) => {
    const content = "Herons prefer shallow water."
    await succeed(house, "memory_write", { content, category: "written" })
    expect(await memoriesOf(house, "written")).toEqual([content])
  },
  memory_read: async (house) => {
    await remember(house, "The pond freezes in January.", "read")
    const { read } = await succeed(house, "memory_read", { query: "freezing pond" })
    expect(read).toContain("The pond freezes in January.")
  },
  memory_delete: async (house) => {
    const id = await remember(house, "Wrong.", "deleted")
    await remember(house, "Right.", "deleted")
    await succeed(house, "memory_delete", { id })
    expect(await memoriesOf(house, "deleted")).toEqual(["Right."])
  },
  memory_prune: async (house) => {
    for (const content of ["First.", "Second.", "Third."]) await remember(house, content, "pruned")
    const args = { category: "pruned", keepLatest: 1, dryRun: false }
    await succeed(house, "memory_prune", args)
    expect(await memoriesOf(house, "pruned")).toEqual(["Third."])
  },
  emit_notification: async (house) => {
    const content = "The ice is gone."
    await succeed(house, "emit_notification", { to_session_id: "other", content })
    expect(await mailOf(house)).toContain(content)
  },
  mailbox_send: async (house) => {
    const content = "Bring reeds."
    await succeed(house, "mailbox_send", { to_session_id: "other", content })
    expect(await mailOf(house)).toContain(content)
  },
  mailbox_check: async (house) => {
    const content = "Mail from the other session."
    await house.other.uplink.request("mailbox-send", { toSessionId: "main", content })
    const { read } = await succeed(house, "mailbox_check", {})
    expect(read).toContain(content)
  },
  task_create: async (house) => {
    await succeed(house, "task_create", { title: "Collect reeds", session_id: "other" })
    expect(await tasksOf(house)).toContainEqual(
      expect.objectContaining({ title: "Collect reeds", createdBySessionId: "main" }),
    )
  },
  task_list: async (house) => {
    await addTask(house, "Count the frogs")
    const { read } = await succeed(house, "task_list", {})
    expect(read).toContain("Count the frogs")
  },
  task_update: async (house) => {
    const id = await addTask(house, "Watch the pike")
    await succeed(house, "task_update", { id, status: "completed", result: "It left." })
    expect(await tasksOf(house)).toContainEqual(
      expect.objectContaining({ id, status: "completed", result: "It left." }),
    )
  },
  my_tasks: async (house) => {
    await addTask(house, "A task of main", "main")
    await addTask(house, "A task of other", "other")
    const { read } = await succeed(house, "my_tasks", {})
    expect(read).toContain("A task of main")
    expect(read).not.toContain("A task of other")
  },
  list_personas: async (house) => {
    await storePersona(house, "wader", "# Walks in water\nBe patient.\n")
    const { read } = await succeed(house, "list_personas", {})
    expect(read).toContain("wader")
    expect(read).toContain("Walks in water")
  },
}

/** As a person adds one, the same on both hosts. */
const storePersona = async ({ api }: House, name: string, content: string): Promise<void> => {
  expect((await api("PUT", `/personas/${name}`, { content })).status).toBe(201)
}
