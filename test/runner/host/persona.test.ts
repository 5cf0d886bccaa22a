/** Persona files: what they are called, where they land, what the agent is told of its repository. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as fc from "fast-check"
import { nameFiles, writePersona } from "../../../src/runner/host/persona.ts"

const name = (filename: string, sortOrder?: number) =>
  nameFiles([{ filename, content: "", sortOrder }])[0]?.name

describe("a name", () => {
  test.each([
    ["style.md", "00-style.md"],
    ["../../x", "00-x.md"],
    ["/etc/passwd", "00-etc-passwd.md"],
    ["..\\..\\boot.ini", "00-boot.ini.md"],
    ["a/../../b.md", "00-a-b.md"],
    ["", "00-persona.md"],
    ["....", "00-persona.md"],
    ["ein schöner Name.MD", "00-ein-sch-ner-Name.md"],
    ["x\u0000y\nz", "00-x-y-z.md"],
  ])("%p becomes %p", (given, expected) => {
    expect(name(given)).toBe(expected)
  })

  test("starts with its place", () => {
    expect(name("a", 7)).toBe("07-a.md")
    expect(name("a", -3)).toBe("00-a.md")
  })

  test("is never anything but one word inside the directory, whatever was asked for", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.integer(), (filename, sortOrder) => {
        const made = name(filename, sortOrder) ?? ""
        expect(made).toMatch(/^\d{2,}-[\w.-]{1,110}\.md$/)
        expect(made).not.toContain("..")
        expect(dirname(join("/d", made))).toBe("/d")
      }),
    )
  })
})

test("files that would be called the same are told apart, in the order they were given", () => {
  const files = ["a", "a.md", "../a"].map((filename) => ({ filename, content: filename }))
  expect(nameFiles(files).map((file) => file.name)).toEqual(["00-a.md", "00-a-2.md", "00-a-3.md"])
})

describe("written", () => {
  let root: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "persona-"))
  })
  afterEach(() => rm(root, { recursive: true, force: true }))
  const directory = () => join(root, "persona")

  test("they lie in one directory, the repository's facts first, those of before gone", async () => {
    await writePersona(directory(), [{ filename: "old", content: "old" }], [])
    const files = await writePersona(
      directory(),
      [{ filename: "../../evil", content: "be kind", sortOrder: 1 }],
      [
        {
          url: "https://git.example/a/b.git",
          directory: "/workspace/b",
          branch: "main",
          ref: "v1",
        },
      ],
    )
    expect(files).toEqual([
      join(directory(), "00-repo-context.md"),
      join(directory(), "01-evil.md"),
    ])
    expect((await readdir(directory())).toSorted()).toEqual(["00-repo-context.md", "01-evil.md"])
    expect(await readdir(root)).toEqual(["persona"])
    expect(await readFile(files[0] ?? "", "utf8")).toContain(
      "`/workspace/b` is a clone of https://git.example/a/b.git (branch main, at v1)",
    )
  })

  test("there is no directory when there is nothing to say", async () => {
    expect(await writePersona(directory(), [], [])).toEqual([])
    expect(await readdir(root)).toEqual([])
  })
})
