/** Pull requests and files of a git host: with a token, with `gh`, and without either. Each test has a hub and a git host of its own. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { execa } from "execa"
import { chmod, mkdir, mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type GitApi, startGitApi } from "../kit/git-api.ts"
import { startTestLocalHub, type TestLocalHub } from "../kit/local-hub.ts"
import { recordingLog } from "../../kit/log.ts"

const setups: TestLocalHub[] = []
afterEach(async () => {
  for (const setup of setups.splice(0)) await setup.stop()
})

const startWith = async (environment: Record<string, string>, logged: string[] = []) => {
  const log = recordingLog(logged)
  const setup = await startTestLocalHub({ environment, log })
  setups.push(setup)
  const git = (...args: string[]) => execa("git", args, { cwd: setup.folder })
  await git("init", "-q")
  await git("remote", "add", "origin", "git@github.com:birds/heron.git")
  return setup
}

const PATH = "/usr/bin:/bin"
const refusal = (request: Promise<unknown>) =>
  request.then(() => "the request was not refused", String)

describe("git host with a token", () => {
  let api: GitApi
  let setup: TestLocalHub
  beforeEach(async () => {
    api = startGitApi()
    setup = await startWith({ PATH, GITHUB_TOKEN: "token-of-the-test", GITHUB_API_URL: api.url })
  })
  afterEach(() => api.stop())

  test("a pull request is opened for the repository of the checkout, and a repeated request returns the same one", async () => {
    const fields = { branch: "fix", title: "Fix it" }
    const created = await setup.runner.uplink.request("create-pr", fields)
    expect(created).toMatchObject({
      number: 1,
      title: "Fix it",
      state: "open",
      url: "https://host/pull/1",
    })
    expect(api.calls.find(({ method }) => method === "POST")?.body).toMatchObject({
      head: "fix",
      base: "trunk",
    })
    expect(await setup.runner.uplink.request("create-pr", fields)).toMatchObject({ number: 1 })
    expect(api.pulls).toHaveLength(1)
    expect(new Set(api.calls.map(({ authorization }) => authorization))).toEqual(
      new Set(["Bearer token-of-the-test"]),
    )
  })

  test("a file is read without a clone, and an error of the git host is passed on", async () => {
    const read = (path: string) =>
      setup.runner.uplink.request("read-repo-file", { owner: "birds", repo: "heron", path })
    expect(await read("a b.txt")).toMatchObject({ content: "grüße", repo: "birds/heron" })
    expect(await refusal(read("none"))).toContain("the git host answered 404: Not Found")
    const invalid = { owner: "../..", repo: "x" }
    expect(await refusal(setup.runner.uplink.request("list-pull-requests", invalid))).toContain(
      "is not a valid name of an owner",
    )
  })
})

const fakeGh = `"${process.execPath}" "${join(import.meta.dir, "../kit/gh-program.ts")}"`
const installed = Bun.which("gh")

const programs: readonly (readonly [string, string])[] = [
  ["a fake gh", fakeGh],
  ...(installed === null ? [] : [["the real gh", `"${installed}"`] as const]),
]

describe.each(programs)("git host with %s", (name, program) => {
  const SECRET = "secret-that-gh-keeps"
  let folder: string
  let api: GitApi
  let environment: Record<string, string>
  const fields = { branch: "fix", title: "Fix it", body: "It was broken." }

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "gh-"))
    const socket = join(folder, "socket")
    api = startGitApi(socket)
    await mkdir(join(folder, "bin"))
    await mkdir(join(folder, "config"))
    // Records its arguments and environment, then runs the program.
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
  afterEach(async () => {
    await api.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const signIn = () =>
    Bun.write(
      join(folder, "config/hosts.yml"),
      `github.com:\n    oauth_token: ${SECRET}\n    user: heron\n    git_protocol: https\n`,
    )

  test(`a request without a login in ${name} is refused with the command to sign in`, async () => {
    const setup = await startWith(environment)
    const said = await refusal(setup.runner.uplink.request("create-pr", fields))
    expect(said).toContain("not signed in: run `gh auth login`")
    expect(api.calls).toEqual([])
  })

  test(`with a login in ${name} pull requests are opened, files are read, and the token does not leak`, async () => {
    await signIn()
    const logged: string[] = []
    const setup = await startWith(environment, logged)
    const { request } = setup.runner.uplink
    expect(await request("create-pr", fields)).toMatchObject({ number: 1, title: "Fix it" })
    expect(await request("create-pr", fields)).toMatchObject({ number: 1 })
    expect(api.pulls).toEqual([
      expect.objectContaining({ head: "fix", base: "trunk", body: fields.body }),
    ])
    expect(await refusal(request("create-pr", { branch: "empty", title: "Fix it" }))).toContain(
      "the git host answered 422: Validation Failed: No commits on empty",
    )
    const read = (path: string) =>
      request("read-repo-file", { owner: "birds", repo: "heron", path })
    expect(await read("a b.txt")).toMatchObject({ content: "grüße" })
    const refused = await refusal(read("none"))
    expect(refused).toContain("the git host answered 404: Not Found")
    expect(new Set(api.calls.map(({ authorization }) => authorization))).toEqual(
      new Set([`token ${SECRET}`]),
    )

    const calledWith = await readFile(join(folder, "arguments"), "utf8")
    expect(calledWith).toContain("api -X POST repos/birds/heron/pulls --input -")
    const environmentOfGh = await readFile(join(folder, "environment"), "utf8")
    for (const text of [calledWith, environmentOfGh, refused, ...logged])
      expect(text).not.toContain(SECRET)
  })

  test(`a connection error of ${name} is passed on with its reason`, async () => {
    await signIn()
    await api.stop()
    const setup = await startWith(environment)
    expect(await refusal(setup.runner.uplink.request("list-repos", {}))).toMatch(/gh: \S/)
  })
})

test("a request without a token and without gh is refused with what to install", async () => {
  const bin = await mkdtemp(join(tmpdir(), "no-gh-"))
  const git = Bun.which("git") ?? ""
  await Bun.write(join(bin, "git"), `#!/bin/sh\nexec "${git}" "$@"\n`)
  await chmod(join(bin, "git"), 0o755)
  const setup = await startWith({ PATH: bin })
  const request = setup.runner.uplink.request("create-pr", { branch: "fix", title: "Fix it" })
  expect(await refusal(request)).toContain("set GITHUB_TOKEN, or install gh and sign in")
  await rm(bin, { recursive: true, force: true })
})
