/** Pull requests and files of a git host: with a token, through `gh`, and without either. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { execa } from "execa"
import { chmod, mkdir, mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type GitApi, startGitApi } from "../kit/git-api.ts"
import { startTestLocalHub, type TestLocalHub } from "../kit/local-hub.ts"
import { recordingLog } from "../../kit/log.ts"

const startWith = async (environment: Record<string, string>, logged: string[] = []) => {
  const log = recordingLog(logged)
  const setup = await startTestLocalHub({ environment, log })
  const git = (...args: string[]) => execa("git", args, { cwd: setup.folder })
  await git("init", "-q")
  await git("remote", "add", "origin", "git@github.com:birds/heron.git")
  return setup
}

const PATH = "/usr/bin:/bin"
const refusal = (asked: Promise<unknown>) => asked.then(() => "it was not refused", String)

describe("with a token", () => {
  let api: GitApi
  let setup: TestLocalHub
  beforeAll(async () => {
    api = startGitApi()
    setup = await startWith({ PATH, GITHUB_TOKEN: "token-of-the-test", GITHUB_API_URL: api.url })
  })
  afterAll(async () => {
    await setup.stop()
    await api.stop()
  })

  test("a pull request is opened for the checkout's repository, and the same one again is that one", async () => {
    const asked = { branch: "fix", title: "Fix it" }
    const made = await setup.runner.uplink.request("create-pr", asked)
    expect(made).toMatchObject({
      number: 1,
      title: "Fix it",
      state: "open",
      url: "https://host/pull/1",
    })
    expect(api.calls.find(({ method }) => method === "POST")?.body).toMatchObject({
      head: "fix",
      base: "trunk",
    })
    expect(await setup.runner.uplink.request("create-pr", asked)).toMatchObject({ number: 1 })
    expect(api.pulls).toHaveLength(1)
    expect(new Set(api.calls.map(({ authorization }) => authorization))).toEqual(
      new Set(["Bearer token-of-the-test"]),
    )
  })

  test("a file is read without a clone, and what the host refuses is said in its words", async () => {
    const read = (path: string) =>
      setup.runner.uplink.request("read-repo-file", { owner: "birds", repo: "heron", path })
    expect(await read("a b.txt")).toMatchObject({ content: "grüße", repo: "birds/heron" })
    expect(await refusal(read("none"))).toContain("the git host answered 404: Not Found")
    const strange = { owner: "../..", repo: "x" }
    expect(await refusal(setup.runner.uplink.request("list-pull-requests", strange))).toContain(
      "is no name of an owner",
    )
  })
})

const standIn = `"${process.execPath}" "${join(import.meta.dir, "../kit/gh-program.ts")}"`
const installed = Bun.which("gh")

const programs: readonly (readonly [string, string])[] = [
  ["a stand-in for gh", standIn],
  ...(installed === null ? [] : [["gh itself", `"${installed}"`] as const]),
]

describe.each(programs)("through %s", (_name, program) => {
  const SECRET = "secret-that-gh-keeps"
  let folder: string
  let api: GitApi
  let environment: Record<string, string>
  const asked = { branch: "fix", title: "Fix it", body: "so that it is mended" }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "gh-"))
    const socket = join(folder, "socket")
    api = startGitApi(socket)
    await mkdir(join(folder, "bin"))
    await mkdir(join(folder, "config"))
    // Notes what it is called with, then is what it stands for.
    await Bun.write(
      join(folder, "bin/gh"),
      `#!/bin/sh\necho "$*" >> "${folder}/arguments"\nenv >> "${folder}/environment"\nexec ${program} "$@"\n`,
    )
    await chmod(join(folder, "bin/gh"), 0o755)
    await Bun.write(join(folder, "config/config.yml"), `http_unix_socket: ${socket}\n`)
    environment = {
      PATH: `${join(folder, "bin")}:${PATH}`,
      HOME: folder,
      GH_CONFIG_DIR: join(folder, "config"),
    }
  })
  afterAll(async () => {
    await api.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test("nobody is signed in: that is said, with what to do", async () => {
    const setup = await startWith(environment)
    const said = await refusal(setup.runner.uplink.request("create-pr", asked))
    expect(said).toContain("not signed in: run `gh auth login`")
    expect(api.calls).toEqual([])
    await setup.stop()
  })

  test("somebody is signed in: pull requests are made, files are read, and the token stays where it is", async () => {
    await Bun.write(
      join(folder, "config/hosts.yml"),
      `github.com:\n    oauth_token: ${SECRET}\n    user: heron\n    git_protocol: https\n`,
    )
    const logged: string[] = []
    const setup = await startWith(environment, logged)
    const { request } = setup.runner.uplink
    expect(await request("create-pr", asked)).toMatchObject({ number: 1, title: "Fix it" })
    expect(await request("create-pr", asked)).toMatchObject({ number: 1 })
    expect(api.pulls).toEqual([
      expect.objectContaining({ head: "fix", base: "trunk", body: asked.body }),
    ])
    const read = (path: string) =>
      request("read-repo-file", { owner: "birds", repo: "heron", path })
    expect(await read("a b.txt")).toMatchObject({ content: "grüße" })
    const refused = await refusal(read("none"))
    expect(refused).toContain("the git host answered 404: Not Found")
    expect(new Set(api.calls.map(({ authorization }) => authorization))).toEqual(
      new Set([`token ${SECRET}`]),
    )

    const called = await readFile(join(folder, "arguments"), "utf8")
    expect(called).toContain("api -X POST repos/birds/heron/pulls --input -")
    const given = await readFile(join(folder, "environment"), "utf8")
    for (const text of [called, given, refused, ...logged]) expect(text).not.toContain(SECRET)
    await setup.stop()
  })

  test("a gh that cannot reach its host says why", async () => {
    await api.stop()
    const setup = await startWith(environment)
    expect(await refusal(setup.runner.uplink.request("list-repos", {}))).toMatch(/gh: \S/)
    await setup.stop()
  })
})

test("without a token and without gh it is refused with what to do", async () => {
  const bin = await mkdtemp(join(tmpdir(), "no-gh-"))
  const git = Bun.which("git") ?? ""
  await Bun.write(join(bin, "git"), `#!/bin/sh\nexec "${git}" "$@"\n`)
  await chmod(join(bin, "git"), 0o755)
  const setup = await startWith({ PATH: bin })
  const asked = setup.runner.uplink.request("create-pr", { branch: "fix", title: "Fix it" })
  expect(await refusal(asked)).toContain("give GITHUB_TOKEN, or install gh and sign in")
  await setup.stop()
  await rm(bin, { recursive: true, force: true })
})
