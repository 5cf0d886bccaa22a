/** Which input each operation accepts, and the errors for other input. */
import { describe, expect, test } from "bun:test"
import { operations } from "../../../src/wire/operations/index.ts"
import { sampleOf } from "./samples.ts"

/** The errors for a changed sample, as the API reports them. */
const problems = (name: string, change: Record<string, unknown>): string[] => {
  const operation = operations.find((candidate) => candidate.name === name)
  if (operation === undefined) throw new Error(`${name} is not an operation`)
  const parsed = operation.input.safeParse({ ...sampleOf(name).input, ...change })
  return parsed.success
    ? []
    : parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`)
}

describe("number in a query", () => {
  test.each([
    ["list-pull-requests", "limit", 1, 100],
    ["inspect-pull-request", "files_limit", 1, 300],
    ["inspect-pull-request", "comments_limit", 1, 300],
    ["list-workflow-executions", "limit", 1, 200],
    ["list-workflow-history", "limit", 1, 200],
  ] as const)(
    "the operation %s accepts %s as a whole number from %i to %i",
    (name, field, min, max) => {
      const refusal = [`${field}: must be a whole number from ${min} to ${max}`]
      for (const good of [`${min}`, `${max}`, min])
        expect(problems(name, { [field]: good })).toEqual([])
      for (const bad of [`${min - 1}`, `${max + 1}`, "1.5", "ten", "", "0x10", null, true]) {
        expect(problems(name, { [field]: bad })).toEqual(refusal)
      }
    },
  )

  test("a limit starts at 1 and an offset at 0", () => {
    expect(problems("memory-read", { limit: "0" })).toEqual([
      "limit: must be a whole number, 1 or more",
    ])
    expect(problems("list-workflow-history", { offset: "-1" })).toEqual([
      "offset: must be a whole number, 0 or more",
    ])
  })
})

describe("boolean in a query", () => {
  test("a boolean in a query is true, false, 1 or 0", () => {
    for (const good of ["true", "false", "1", "0", true]) {
      expect(problems("list-triggers", { enabled: good })).toEqual([])
    }
    expect(problems("list-triggers", { enabled: "maybe" })).toEqual([
      "enabled: must be true or false",
    ])
  })

  test("a boolean in a query is parsed to its value", () => {
    const list = operations.find(({ name }) => name === "list-triggers")
    expect(list?.input.parse({ enabled: "false" })).toEqual({ enabled: false })
    expect(list?.input.parse({ enabled: "1" })).toEqual({ enabled: true })
  })
})

describe.each(operations.filter(({ method }) => method === "GET"))("$name", ({ name, input }) => {
  test(`the GET operation ${name} accepts all of its input as text`, () => {
    const texts = Object.values(sampleOf(name).input).every((value) => typeof value === "string")
    expect(texts).toBe(true)
    expect(input.safeParse(sampleOf(name).input).success).toBe(true)
  })
})

describe("field of a body", () => {
  test("a field that is missing, of the wrong type or empty is named in the error", () => {
    expect(problems("spawn-session", { task: undefined })).toEqual([
      "task: is required and must be text",
    ])
    expect(problems("spawn-session", { task: 1 })).toEqual(["task: must be text"])
    expect(problems("spawn-session", { task: "" })).toEqual(["task: must not be empty"])
    expect(problems("forward-messages", { limit: "20" })).toEqual([
      "limit: must be a whole number, 1 or more",
    ])
    expect(problems("sync-workflow", { data: [] })).toEqual(["data: must be an object"])
    expect(problems("task-create", { blocked_by: "k1" })).toEqual([
      "blocked_by: must be a list of texts",
    ])
    expect(problems("update-pull-request", { state: "merged" })).toEqual([
      "state: must be one of open, closed",
    ])
  })

  test("name and config are required to create a trigger and optional to change one", () => {
    expect(problems("create-trigger", { name: undefined, config: undefined })).toEqual([
      "name: is required and must be text",
      "config: is required and must be an object",
    ])
    expect(problems("update-trigger", {})).toEqual([])
  })
})

describe("owner and name of a repository", () => {
  test.each(["list-pull-requests", "inspect-pull-request"])(
    "the operation %s accepts owner and repo together or neither",
    (name) => {
      const refusal = ["owner: must be given together with repo, or not at all"]
      expect(problems(name, { owner: undefined })).toEqual(refusal)
      expect(problems(name, { repo: undefined })).toEqual(refusal)
      expect(problems(name, { owner: undefined, repo: undefined })).toEqual([])
    },
  )
})

describe("notification", () => {
  const refusal = ["to_session_id: give exactly one of to_session_id, to_user_id and to_handle"]

  test("a notification needs exactly one receiver", () => {
    expect(problems("mailbox-send", { to_handle: undefined })).toEqual(refusal)
    expect(problems("mailbox-send", { to_user_id: "u1" })).toEqual(refusal)
    expect(problems("mailbox-send", { to_handle: undefined, to_user_id: "u1" })).toEqual([])
    expect(problems("mailbox-send", { to_handle: undefined, to_session_id: "s1" })).toEqual([])
  })
})

describe("reply to a channel", () => {
  const noImage = { imageBase64: undefined, imageMimeType: undefined }

  test("a reply to a channel needs a message, an image or both", () => {
    expect(problems("channel-reply", { ...noImage, message: "Hi" })).toEqual([])
    expect(problems("channel-reply", { message: "Hi" })).toEqual([])
    for (const message of [undefined, ""]) {
      expect(problems("channel-reply", { ...noImage, message })).toEqual([
        "message: must not be empty when there is no image",
      ])
    }
  })

  test("an image in a reply to a channel needs its MIME type", () => {
    const refusal = "imageBase64: must be given together with imageMimeType, or not at all"
    expect(problems("channel-reply", { imageMimeType: undefined })).toEqual([refusal])
    expect(problems("channel-reply", { imageBase64: undefined, message: "Hi" })).toEqual([refusal])
  })
})

describe("tunnel", () => {
  test("the name of a tunnel has 1 to 32 letters, digits, _ or -", () => {
    for (const name of ["a", "Z9_-", "x".repeat(32)]) {
      expect(problems("register-tunnel", { name })).toEqual([])
    }
    for (const name of ["", "x".repeat(33), "a b", "a/b", "a.b", "é", "a\n", 1, undefined]) {
      expect(problems("register-tunnel", { name })).toEqual([
        "name: must be 1 to 32 letters, digits, _ or -",
      ])
    }
  })

  test("a tunnel with an invalid port or an unknown protocol is refused", () => {
    for (const port of [0, 65_536, 1.5, "80"]) {
      expect(problems("register-tunnel", { port })).toEqual([
        "port: must be a whole number from 1 to 65535",
      ])
    }
    expect(problems("register-tunnel", { protocol: "tcp" })).toEqual([
      "protocol: must be one of http, ws, auto",
    ])
  })
})

describe("command with secrets", () => {
  test("the env of a command with secrets maps variable names to references", () => {
    expect(problems("secret-run", { env: { A: "" } })).toEqual(["env.A: must not be empty"])
    expect(problems("secret-run", { env: { "A=B": "op://x" } })).not.toEqual([])
    expect(problems("secret-run", { env: "A" })).toEqual([
      "env: must be an object of variable names and references",
    ])
  })
})
