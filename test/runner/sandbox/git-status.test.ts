/** The parser of git's status, and the workspace as git sees it, with the real git. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { execa } from "execa"
import * as fc from "fast-check"
import { systemClock } from "../../../src/lib/clock.ts"
import { createGit } from "../../../src/runner/sandbox/git.ts"
import {
  baseName,
  chooseBase,
  parseNameStatus,
  parseNumstat,
  capPatch,
  countLines,
  MAX_PATCH,
  parseStatus,
} from "../../../src/runner/sandbox/git-status.ts"
import { createWorkspace } from "../../../src/runner/sandbox/workspace-changes.ts"

const zeros = "0".repeat(40)
const ordinary = (letters: string, path: string) =>
  `1 ${letters} N... 100644 100644 100644 ${zeros} ${zeros} ${path}`

describe("the parser", () => {
  test("branch, upstream and every kind of change are read", () => {
    const status = parseStatus(
      [
        `# branch.oid ${"a".repeat(40)}`,
        "# branch.head work",
        "# branch.upstream origin/work",
        "# branch.ab +2 -3",
        ordinary(".M", "a file.txt"),
        ordinary("A.", "new.txt"),
        ordinary(".D", "gone.txt"),
        `2 R. N... 100644 100644 100644 ${zeros} ${zeros} R100 to.txt`,
        "from.txt",
        `u UU N... 100644 100644 100644 100644 ${zeros} ${zeros} ${zeros} both.txt`,
        "? untracked.txt",
        "",
      ].join("\0"),
    )
    expect(status).toMatchObject({ branch: "work", head: "a".repeat(40), ahead: 2, behind: 3 })
    expect(status.files.map(({ path, status: change }) => `${change} ${path}`)).toEqual([
      "modified a file.txt",
      "added new.txt",
      "deleted gone.txt",
      "added to.txt",
      "deleted from.txt",
      "modified both.txt",
      "added untracked.txt",
    ])
  })

  test("a detached HEAD has no branch, and a repository without commits has no head", () => {
    const status = parseStatus("# branch.oid (initial)\0# branch.head (detached)\0")
    expect(status).toMatchObject({ branch: undefined, head: undefined, ahead: undefined })
  })

  test("any path without a zero byte is read unchanged", () => {
    const path = fc.string({ minLength: 1 }).filter((text) => !text.includes("\0"))
    fc.assert(
      fc.property(fc.array(path), (paths) => {
        const text = paths.flatMap((one) => [ordinary(".M", one), `? ${one}`]).join("\0")
        expect(parseStatus(text).files.map((file) => file.path)).toEqual(
          paths.flatMap((one) => [one, one]),
        )
      }),
    )
  })

  test("any text is parsed without an exception", () => {
    fc.assert(fc.property(fc.string(), (text) => void parseStatus(text)))
  })

  test("files and lines of a diff are read, with any characters in their paths", () => {
    const path = fc.string().filter((one) => one !== "" && !one.includes("\0"))
    fc.assert(
      fc.property(fc.uniqueArray(path), (paths) => {
        const names = paths.map((one) => `M\0${one}\0`).join("")
        expect(parseNameStatus(names).map((file) => file.path)).toEqual(paths)
        const counts = parseNumstat(paths.map((one) => `3\t-\t${one}\0`).join(""))
        expect([...counts]).toEqual(paths.map((one) => [one, { additions: 3, deletions: 0 }]))
      }),
    )
    expect(parseNameStatus("A\0a\0D\0d\0T\0t\0").map(({ status }) => status)).toEqual([
      "added",
      "deleted",
      "modified",
    ])
  })

  test("the base of a branch is the remote's default branch, else the known main branch", () => {
    const known = ["refs/heads/main", "refs/heads/master"]
    expect(chooseBase("refs/remotes/origin/trunk", known, "trunk")).toBe(
      "refs/remotes/origin/trunk",
    )
    expect(chooseBase("", known, "topic")).toBe("refs/heads/main")
    expect(chooseBase("", known, "main")).toBeUndefined()
    expect(chooseBase("", ["refs/remotes/origin/main", ...known], "main")).toBe(
      "refs/remotes/origin/main",
    )
    expect(["refs/remotes/origin/a/b", "refs/heads/main"].map(baseName)).toEqual(["a/b", "main"])
  })

  test("a long patch is cut with a mark that names its length", () => {
    const patch = "x".repeat(MAX_PATCH + 1)
    expect(capPatch(patch)).toContain(`[the patch is ${MAX_PATCH + 1} characters long`)
    expect(capPatch("short")).toBe("short")
  })

  test("the lines of a patch are counted without its header", () => {
    expect(countLines("--- a\n+++ b\n@@ -1 +1,2 @@\n-one\n+two\n+three\n")).toEqual({
      additions: 2,
      deletions: 1,
    })
    expect(countLines("Binary files differ\n")).toEqual({ additions: 0, deletions: 0 })
  })
})

describe("a workspace", () => {
  let workDir: string
  const run = (...args: readonly string[]) => execa("git", args, { cwd: workDir })
  const workspace = (below = "") =>
    createWorkspace(
      createGit({
        workDir: join(workDir, below),
        environment: { PATH: process.env["PATH"] ?? "", HOME: workDir },
        user: undefined,
        clock: systemClock,
      }),
    )

  const identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
  const commit = (message: string) => run(...identity, "commit", "-qm", message)

  beforeEach(async () => {
    workDir = await mkdtemp(join(tmpdir(), "workspace-"))
  })
  afterEach(() => rm(workDir, { recursive: true, force: true }))

  /** A repository with one commit, and one change that is not committed. */
  const startRepository = async (): Promise<void> => {
    await run("init", "-q", "-b", "main")
    await writeFile(join(workDir, "kept.txt"), "one\n")
    await writeFile(join(workDir, "gone.txt"), "gone\n")
    await run("add", "-A")
    await commit("first: it")
    await writeFile(join(workDir, "kept.txt"), "one\ntwo\n")
  }

  test("a directory that is not a repository has no state and no patches", async () => {
    expect(await workspace().readStatus()).toBeUndefined()
    expect(await workspace().readPatches()).toEqual([])
  })

  test("changes of tracked, staged, deleted and untracked files are patches against the last commit", async () => {
    await startRepository()
    await writeFile(join(workDir, "sch ön.txt"), "new\n")
    await writeFile(join(workDir, "large.txt"), "line\n".repeat(20_000))
    await rm(join(workDir, "gone.txt"))
    const patches = await workspace().readPatches()
    const byPath = new Map(patches.map((patch) => [patch.path, patch]))
    expect(byPath.get("kept.txt")).toMatchObject({ status: "modified", additions: 1, deletions: 0 })
    expect(byPath.get("kept.txt")?.diff).toContain("+two")
    expect(byPath.get("gone.txt")).toMatchObject({ status: "deleted", deletions: 1 })
    expect(byPath.get("sch ön.txt")?.diff).toContain("+new")
    expect(byPath.get("large.txt")).toMatchObject({ status: "added", additions: 20_000 })
    expect(byPath.get("large.txt")?.diff).toContain("the rest is not shown")
    const status = await workspace().readStatus()
    expect(status && (await workspace().readState(status))).toMatchObject({
      type: "git-state",
      branch: "main",
      dirtyCount: 4,
      lastCommit: { subject: "first: it", hash: expect.stringMatching(/^[0-9a-f]{40}$/) },
    })
  })

  test("a workspace inside a repository has the same patches as its top directory", async () => {
    await startRepository()
    await mkdir(join(workDir, "inner/deep"), { recursive: true })
    await writeFile(join(workDir, "inner/deep/new.txt"), "deep\n")
    const patches = await workspace("inner/deep").readPatches()
    expect(patches.map(({ path }) => path)).toContain("inner/deep/new.txt")
    expect(patches).toEqual(await workspace().readPatches())
  })

  test("the changes of a branch are those since it left its base, committed or not", async () => {
    await startRepository()
    await run("add", "-A")
    await commit("next")
    await run("switch", "-qc", "topic")
    await writeFile(join(workDir, "committed.txt"), "one\ntwo\n")
    await run("add", "-A")
    await commit("next")
    await writeFile(join(workDir, "kept.txt"), "one\ntwo\nthree\n")
    await writeFile(join(workDir, "untracked.txt"), "new\n")
    // The base goes on without the branch: its changes are not the branch's.
    const tree = (await run("rev-parse", "main^{tree}")).stdout
    const args = [...identity, "commit-tree", tree, "-p", "main", "-m", "later"]
    await run("update-ref", "refs/heads/main", (await run(...args)).stdout)
    const expected = [
      { path: "committed.txt", status: "added", additions: 2, deletions: 0 },
      { path: "kept.txt", status: "modified", additions: 1, deletions: 0 },
      { path: "untracked.txt", status: "added", additions: 1, deletions: 0 },
    ]
    const status = await workspace().readStatus()
    if (!status) throw new Error("it is a repository")
    expect(await workspace().readFiles(status)).toEqual(expected)
    const patches = await workspace().readPatches()
    expect(patches.map(({ diff: _diff, ...file }) => file)).toEqual(expected as never)
    expect(await workspace().readState(status)).toMatchObject({
      branch: "topic",
      baseBranch: "main",
      commitCount: 1,
      dirtyCount: 2,
    })
    // With a remote its default branch is the base, also of the branch with the same name.
    await run("update-ref", "refs/remotes/origin/trunk", "main~1")
    await run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    expect(await workspace().readState(status)).toMatchObject({ baseBranch: "trunk" })
    expect(await workspace().readFiles(status)).toEqual(expected)
  })

  test("a repository cannot start a program through its configuration", async () => {
    await startRepository()
    await run("config", "core.fsmonitor", `touch ${workDir}/hacked; false`)
    await run("config", "diff.external", `touch ${workDir}/hacked; false`)
    await workspace().readPatches()
    expect(await Bun.file(join(workDir, "hacked")).exists()).toBe(false)
  })
})
