/**
 * `/api/git` over the gateway: real repositories, and repositories whose settings try to run programs. The tests share one gateway;
 * each has a repository of its own in an empty workspace.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { chmod, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import { API_TOKEN, makeToken } from "../../gateway/kit.ts"
import { otherUser, startV1Stage, type V1Stage } from "./kit.ts"

let stage: V1Stage
let repository: string
const idOf = (path: string): string => Buffer.from(path).toString("base64url")
const ID = idOf("./project")

const git = async (...args: string[]): Promise<string> => {
  const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
  // Explicit: git refuses to search for the repository of another user.
  const place = [`--git-dir=${repository}/.git`, `--work-tree=${repository}`]
  return Bun.$`git -C ${repository} ${place} ${identity} ${args}`.quiet().text()
}
const give = async () => {
  if (otherUser) await Bun.$`chown -R ${otherUser.uid}:${otherUser.gid} ${stage.root}`
}
const ask = async (what: string, query = ""): Promise<Response> =>
  stage.call("GET", `/api/git/${what}?repo=${ID}${query}`)
const diffBody = z.object({
  diff: z.string(),
  truncated: z.boolean(),
  files: z.array(z.object({ path: z.string(), truncated: z.boolean() })),
})
const readDiff = async (query = "") => diffBody.parse(await (await ask("diff", query)).json())

beforeAll(async () => {
  stage = await startV1Stage()
  repository = join(stage.root, "project")
})
beforeEach(async () => {
  for (const folder of [stage.root, stage.outside])
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true })
  await Bun.$`git init -q -b main ${repository}`
  await writeFile(join(repository, "a.txt"), "one\ntwo\n")
  await writeFile(join(repository, "big.txt"), "start\n")
  await git("add", ".")
  await git("commit", "-qm", "the first commit")
  await git("branch", "other")
  await give()
})
afterAll(() => stage.stop())

describe("git of the workspace", () => {
  test("repositories are found by their place and named by an id", async () => {
    const response = await stage.call("GET", "/api/git/repos")
    expect(await response.json()).toEqual({ repos: [{ id: ID, path: repository }] })
  })

  test("a person and the control plane may ask, the agent's tools may not", async () => {
    const as = async (token: string) =>
      (
        await fetch(`${stage.gateway.url}/api/git/repos`, {
          headers: { authorization: `Bearer ${token}` },
        })
      ).status
    expect(await as(makeToken())).toBe(200)
    expect(await as(API_TOKEN)).toBe(401)
  })

  /** One file is changed and one is new. */
  const change = async () => {
    await writeFile(join(repository, "a.txt"), "one\n2\n")
    await writeFile(join(repository, "new file"), "fresh\n")
    await give()
  }

  test("status, log and branches are those of git", async () => {
    await change()
    expect(await (await ask("status")).json()).toMatchObject({
      branch: "main",
      ahead: 0,
      behind: 0,
      files: [
        { path: "a.txt", status: "modified", isTracked: true },
        { path: "new file", status: "added", isTracked: false },
      ],
    })
    const hash = (await git("rev-parse", "HEAD")).trim()
    expect(await (await ask("log", "&limit=5")).json()).toMatchObject({
      commits: [{ hash, author: "Ada", email: "ada@example.com", subject: "the first commit" }],
    })
    expect(await (await ask("branches")).json()).toMatchObject({
      current: "main",
      branches: [
        { name: "main", hash, isCurrent: true, isRemote: false },
        { name: "other", hash, isCurrent: false },
      ],
    })
  })

  test("a diff shows changed and new files, of all files or of one", async () => {
    await change()
    const all = await readDiff()
    expect(all.diff).toContain("-two\n+2\n")
    expect(all.diff).toContain("+++ b/new file\n@@ -0,0 +1,1 @@\n+fresh\n")
    const one = await readDiff("&path=a.txt")
    expect(one.files).toEqual([{ path: "a.txt", truncated: false }])
  })

  test("a patch is cut at 64 KiB and marked", async () => {
    await writeFile(join(repository, "big.txt"), "a long line of text\n".repeat(10_000))
    await give()
    const { diff, truncated } = await readDiff("&path=big.txt")
    expect(truncated).toBe(true)
    expect(diff.length).toBeLessThan(66_000)
    expect(diff).toContain("the rest is not shown")
  })

  test("the patches of all files together are cut at 64 KiB, and the files that are not shown are named", async () => {
    const names = Array.from({ length: 8 }, (_, index) => `part-${index}.txt`)
    await change()
    for (const name of names)
      await writeFile(join(repository, name), `a line of ${name}\n`.repeat(1000))
    await give()
    const { diff, truncated, files } = await readDiff()
    expect(truncated).toBe(true)
    expect(diff.length).toBeLessThan(66_000)
    expect(diff.match(/the rest is not shown/g)).toHaveLength(1)
    expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(names))
    for (const { path, truncated: isCut } of files) {
      const one = await readDiff(`&path=${encodeURIComponent(path)}`)
      expect(diff.includes(one.diff)).toBe(!isCut)
    }
  })
})

test("paths and ids that lead out of the workspace are refused", async () => {
  for (const id of ["", "!", idOf("../outside"), idOf("/etc"), idOf(stage.outside)]) {
    const response = await stage.call("GET", `/api/git/status?repo=${id}`)
    expect(response.status).toBe(400)
  }
  expect((await stage.call("GET", `/api/git/status?repo=${idOf("./none")}`)).status).toBe(404)
  for (const path of ["../outside/secret", "a/../../x"]) {
    expect((await ask("diff", `&path=${encodeURIComponent(path)}`)).status).toBe(400)
  }
  for (const limit of ["0", "-1", "x", "9999", "--all"]) {
    expect((await ask("log", `&limit=${limit}`)).status).toBe(400)
  }
})

describe("a hostile repository", () => {
  test("cannot run a program by a filter, whatever the filter's name is", async () => {
    const trap = join(stage.root, "filter-trap.sh")
    const sprung = join(stage.root, "filter-sprung")
    const config = join(repository, ".git/config")
    const attributes = join(repository, ".gitattributes")
    await writeFile(trap, `#!/bin/sh\ntouch ${sprung}\ncat\n`)
    await chmod(trap, 0o755)
    const before = await readFile(config, "utf8")
    const names = ["a=b", "=", "a.b", ".a=b.c=", "ä=ö", "-c", "a.clean", "A=b", "a=b.clean=", ""]
    for (const name of names) {
      const section = [
        `[filter "${name}"]`,
        `clean = ${trap}`,
        `process = ${trap}`,
        "required = true",
      ]
      const others = [
        '[filter "with = space"]',
        `clean = ${trap}`,
        "[credential]",
        `helper = !${trap}`,
      ]
      await writeFile(config, `${before}\n${[...section, ...others].join("\n")}\n`)
      await writeFile(attributes, `* filter=${name}\n`)
      await writeFile(join(repository, "a.txt"), `changed for ${name}\n`)
      await give()
      for (const what of ["status", "diff", "log", "branches"])
        expect([name, what, (await ask(what)).status]).toEqual([name, what, 200])
      expect([name, existsSync(sprung)]).toEqual([name, false])
    }
  })

  test("cannot run a program by its settings, hooks, attributes or submodules", async () => {
    const trap = join(stage.root, "trap.sh")
    const sprung = join(stage.root, "sprung")
    await writeFile(trap, `#!/bin/sh\ntouch ${sprung}\ncat\n`)
    await chmod(trap, 0o755)
    for (const key of [
      "core.fsmonitor",
      "core.pager",
      "core.editor",
      "core.sshCommand",
      "diff.external",
      "diff.evil.textconv",
      "diff.evil.command",
      "filter.evil.clean",
      "filter.evil.smudge",
      "filter.evil.process",
      "gpg.program",
      "pager.log",
      "pager.status",
      "pager.diff",
      "alias.status",
      "core.alternateRefsCommand",
    ]) {
      await git("config", key, trap)
    }
    await git("config", "log.showSignature", "true")
    await git("config", "filter.evil.required", "true")
    await writeFile(join(repository, ".gitattributes"), "* diff=evil filter=evil\n")
    for (const hook of ["post-index-change", "fsmonitor-watchman", "pre-commit", "post-checkout"]) {
      await writeFile(join(repository, ".git/hooks", hook), `#!/bin/sh\ntouch ${sprung}\n`)
      await chmod(join(repository, ".git/hooks", hook), 0o755)
    }
    await writeFile(join(repository, "a.txt"), "changed again\n")
    await give()
    for (const what of ["status", "diff", "log", "branches"]) {
      expect((await ask(what)).status).toBe(200)
    }
    expect(existsSync(sprung)).toBe(false)
  })

  test("cannot show files outside the workspace by its work tree or its git directory", async () => {
    await writeFile(join(stage.outside, "secret"), "a secret outside")
    await git("config", "core.worktree", stage.outside)
    await give()
    expect(await (await ask("status")).text()).not.toContain("secret")
    expect(await (await ask("diff")).text()).not.toContain("a secret outside")
    await Bun.$`git init -q ${stage.outside} && mkdir -p ${stage.root}/elsewhere`
    await writeFile(join(stage.root, "elsewhere/.git"), `gitdir: ${stage.outside}/.git\n`)
    await give()
    const response = await stage.call("GET", `/api/git/status?repo=${idOf("./elsewhere")}`)
    expect(response.status).toBe(400)
    expect(await response.text()).toContain("outside the workspace")
  })
})
