/** The pure functions of the hand-written tools, and how a tool reads its arguments. */
import { describe, expect, test } from "bun:test"
import { z } from "zod"
import { flag, openObject, text, wholeNumber } from "../../src/wire/operations/fields.ts"
import { explain } from "../../tools/debug-execution.ts"
import { mimeOf } from "../../tools/image.ts"
import { handWritten, tools, toolsFrom } from "../../tools/index.ts"
import { choosePruned } from "../../tools/memory-prune.ts"
import { configOf } from "../../tools/sync-trigger.ts"
import { readArguments } from "../../tools/tool.ts"
import { envLines } from "../../tools/write-tunnel-env.ts"
import { operations } from "../../src/wire/operations/index.ts"

describe("arguments of a tool", () => {
  const input = z.object({
    name: text("A name"),
    count: wholeNumber("A count", { min: 1 }).optional(),
    data: openObject("Data").optional(),
    on: flag("On or off").optional(),
    parent: text("A parent").nullable().optional(),
  })

  test("a null argument counts as absent unless the field accepts null", () => {
    expect(readArguments(input, { name: "x", count: null, on: null })).toEqual({ name: "x" })
    expect(readArguments(input, { name: "x", parent: null })).toEqual({ name: "x", parent: null })
  })

  test("arguments may be given as JSON text", () => {
    const given = { name: "5", count: "3", data: '{"a":1}', on: "true" }
    expect(readArguments(input, given)).toEqual({ name: "5", count: 3, data: { a: 1 }, on: true })
  })

  test("all invalid arguments are named with what they must be", () => {
    expect(() => readArguments(input, { count: 0, data: "x" })).toThrow(
      "name is required and must be text; count must be a whole number, 1 or more; data must be an object. Correct this and call the tool again.",
    )
    for (const nothing of [undefined, null, "text", 4]) {
      expect(() => readArguments(input, nothing)).toThrow("name is required")
    }
  })
})

describe("table of tools", () => {
  test("there are 70 tools, and a tool that is both generated and hand-written is rejected", () => {
    expect(Object.keys(tools)).toHaveLength(70)
    const [some] = Object.values(handWritten)
    if (!some) throw new Error("there are no hand-written tools")
    expect(() => toolsFrom(operations, { spawn_session: some })).toThrow(
      "the tool spawn_session is both generated from an operation and hand-written",
    )
  })

  test.each(Object.entries(tools))(
    "the tool %s has a snake_case name and at least one argument",
    (name, { args }) => {
      expect(name).toMatch(/^[a-z]+(_[a-z]+)*$/)
      expect(Object.keys(args)).not.toEqual([])
    },
  )
})

describe("choice of memories to prune", () => {
  const at = (id: string, days: number, relevance?: number) => ({
    id,
    createdAt: new Date(Date.UTC(2026, 0, 31 - days)).toISOString(),
    ...(relevance !== undefined && { relevance }),
  })
  const now = Date.UTC(2026, 0, 31)
  const known = [
    at("new", 1, 0.9),
    at("old", 20, 0.9),
    at("irrelevant", 25, 0.1),
    { id: "undated" },
  ]
  const ids = (rules: Parameters<typeof choosePruned>[1]) =>
    choosePruned(known, rules, now).map(({ id }) => id)

  test("memories that match every rule are pruned, the oldest first", () => {
    expect(ids({ olderThanDays: 10 })).toEqual(["irrelevant", "old"])
    expect(ids({ olderThanDays: 10, relevanceAtMost: 0.5 })).toEqual(["irrelevant"])
    expect(ids({ relevanceAtMost: 0.5 })).toEqual(["irrelevant"])
    expect(ids({ olderThanDays: 10, maxDeletes: 1 })).toEqual(["irrelevant"])
  })

  test("the newest memories to keep, and memories without a date, are not pruned for their age", () => {
    expect(ids({ keepLatest: 3 })).toEqual(["irrelevant"])
    expect(ids({ olderThanDays: 0 })).not.toContain("undated")
  })
})

describe("explanation of an execution", () => {
  test("the explanation of a failed execution contains the failed step and advice", () => {
    const explanation = explain({ status: "failed", error: "boom" }, [
      { stepId: "a", status: "completed" },
      { stepId: "b", status: "failed", attempt: 2, error: "exit 1" },
    ])
    expect(explanation).toContain("Status: failed.\nError: boom")
    expect(explanation).toContain("- b: failed, attempt 2: exit 1")
    expect(explanation).toContain("read step b")
  })

  test.each([
    ["needs_approval", "ask the user to approve or deny it in their client"],
    ["cancelled", "run_workflow"],
    ["ok", "it is completed"],
    ["running", "it is still running"],
    ["failed", "get_workflow"],
  ])("the explanation of an execution with status %s contains: %s", (status, advice) => {
    expect(explain({ status }, [])).toContain(advice)
  })
})

describe("config of a trigger", () => {
  test("the config of a trigger contains only the arguments of its type", () => {
    const given = {
      webhook_secret: "s",
      schedule_cron: "* * * * *",
      schedule_target: "workflow",
    } as const
    expect(configOf({ type: "webhook", ...given })).toEqual({ type: "webhook", secret: "s" })
    expect(configOf({ type: "schedule", ...given })).toEqual({
      type: "schedule",
      cron: "* * * * *",
      target: "workflow",
    })
    expect(configOf({ type: "manual", ...given })).toEqual({ type: "manual" })
  })
})

describe("env file of the tunnels", () => {
  const tunnels = [
    { name: "my-app", path: "/t/my-app" },
    { name: "api", path: "/t/api" },
  ]

  test("the env file contains the URL of each tunnel and the requested aliases", () => {
    const given = { include_gateway: true, set_api_url_from: "api", prefix: "VITE_" }
    expect(envLines(given, tunnels, "https://box.example/")).toEqual([
      "VITE_GATEWAY_URL=https://box.example",
      "VITE_MY_APP_URL=https://box.example/t/my-app",
      "VITE_API_URL=https://box.example/t/api",
      "API_URL=https://box.example/t/api",
    ])
  })

  test("the env file contains paths when the public URL is unknown, and an unknown tunnel is refused", () => {
    expect(envLines({}, tunnels, undefined)).toEqual([
      "TUNNEL_MY_APP_URL=/t/my-app",
      "TUNNEL_API_URL=/t/api",
    ])
    expect(() => envLines({ set_api_url_from: "web" }, tunnels, undefined)).toThrow("no tunnel web")
  })
})

test("the type of an image is detected from its first bytes", () => {
  const bytes = (head: string) => Buffer.from(head, "latin1")
  expect(mimeOf(bytes("\x89PNG\r\n\x1a\n...."))).toBe("image/png")
  expect(mimeOf(bytes("\xff\xd8\xff\xe0"))).toBe("image/jpeg")
  expect(mimeOf(bytes("GIF89a"))).toBe("image/gif")
  expect(mimeOf(bytes("RIFF....WEBP"))).toBe("image/webp")
  expect(mimeOf(bytes("<svg>"))).toBeUndefined()
})
