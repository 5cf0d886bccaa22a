/** Persona files: their names, their location, and the text about the repositories. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as fc from "fast-check"
import { nameFiles, writePersona } from "../../../src/runner/host/persona.ts"

const name = (filename: string, sortOrder?: number) =>
  nameFiles([{ filename, content: "", sortOrder }])[0]?.name

describe("persona file names", () => {
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
  ])("the file name %p becomes %p", (given, expected) => {
    expect(name(given)).toBe(expected)
  })

  test("a file name starts with its sort order", () => {
    expect(name("a", 7)).toBe("07-a.md")
    expect(name("a", -3)).toBe("00-a.md")
  })

  test("any file name becomes a plain name inside the directory", () => {
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

test("files with equal names get numbers in the given order", () => {
  const files = ["a", "a.md", "../a"].map((filename) => ({ filename, content: filename }))
  expect(nameFiles(files).map((file) => file.name)).toEqual(["00-a.md", "00-a-2.md", "00-a-3.md"])
})

describe("writing persona files", () => {
  let root: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "persona-"))
  })
  afterEach(() => rm(root, { recursive: true, force: true }))
  const directory = () => join(root, "persona")

  test("files are written to one directory, repository facts first, and old files are removed", async () => {
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

  test("without files and repositories no directory is created", async () => {
    expect(await writePersona(directory(), [], [])).toEqual([])
    expect(await readdir(root)).toEqual([])
  })
})
