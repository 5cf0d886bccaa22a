/** What programs of this machine may ask of the runner, and with which token. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdtemp, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  askControl,
  type Control,
  findControl,
  startControl,
} from "../../../src/runner/host/control-socket.ts"
import { credentialsOf, parseCredentialRequest } from "../../../src/runner/host/repository-rules.ts"
import { describeError } from "../../../src/lib/log.ts"
import { silentLog as log } from "../../kit/log.ts"

let stateDir: string
let control: Control
const ran: string[] = []

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "control-"))
  ran.length = 0
  control = await startControl({
    stateDir,
    apiToken: "the-agents-token",
    credentials: () => [{ origin: "https://git.example", username: "oauth2", password: "secret" }],
    runWorkflow: async (order) => ({ ran: order }),
    runHook: async (hook) => {
      ran.push(hook)
      return { done: hook }
    },
    log,
  })
})
afterEach(async () => {
  await control.stop()
  await rm(stateDir, { recursive: true, force: true })
})

const asAgent = () => ({ url: control.url, token: "the-agents-token" })
const refusalOf = (asked: Promise<unknown>): Promise<string> => asked.then(() => "", describeError)
const question = (protocol: string, host: string) => ({ protocol, host })

describe("git's password", () => {
  test("is told to the agent's token and to whoever may read the state directory", async () => {
    for (const address of [asAgent(), await findControl(stateDir)]) {
      const answer = await askControl(
        address,
        "/git-credential",
        question("https", "git.example"),
        1000,
      )
      expect(answer).toEqual({ username: "oauth2", password: "secret" })
    }
  })

  test.each([
    ["https", "github.com"],
    ["http", "git.example"],
    ["https", "git.example:8443"],
    ["https", "git.example.evil.example"],
    ["https", "evil.example/git.example"],
    ["https", ""],
  ])("is not told for %s %s", async (protocol, host) => {
    const asked = askControl(asAgent(), "/git-credential", question(protocol, host), 1000)
    expect(await refusalOf(asked)).toContain("no credential for that host")
  })

  test("is not told to anybody else, nor to a question of another form", async () => {
    const wrong = { url: control.url, token: "guessed" }
    expect(
      await refusalOf(askControl(wrong, "/git-credential", question("https", "git.example"), 1000)),
    ).toContain("not allowed")
    expect(await refusalOf(askControl(asAgent(), "/git-credential", "what?", 1000))).toContain(
      "no credential",
    )
  })
})

describe("hooks", () => {
  test("are run for whoever may read the state directory", async () => {
    const address = await findControl(stateDir)
    expect(await askControl(address, "/hooks/pre-snapshot", {}, 1000)).toEqual({
      done: "pre-snapshot",
    })
    expect(ran).toEqual(["pre-snapshot"])
  })

  test("are not run for the agent, and unknown ones for nobody", async () => {
    expect(await refusalOf(askControl(asAgent(), "/hooks/pre-snapshot", {}, 1000))).toContain(
      "not allowed",
    )
    expect(
      await refusalOf(askControl(await findControl(stateDir), "/hooks/format-disk", {}, 1000)),
    ).toContain("not allowed")
    expect(ran).toEqual([])
  })
})

test("workflows are run for the agent and for whoever may read the state directory, and for nobody else", async () => {
  const run = (address: { url: string; token: string }) =>
    askControl(address, "/workflow", { kind: "run" }, 1000)
  expect(await run(asAgent())).toEqual({ ran: { kind: "run" } })
  expect(await run(await findControl(stateDir))).toEqual({ ran: { kind: "run" } })
  expect(await refusalOf(run({ url: control.url, token: "guessed" }))).toContain("not allowed")
})

test("its file is for this user only, and gone after the end", async () => {
  const file = join(stateDir, "control.json")
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  await control.stop()
  expect(existsSync(file)).toBeFalse()
  expect(await refusalOf(findControl(stateDir))).toContain("is it running?")
})

describe("who is told which token", () => {
  test("the sandbox's token goes to the first repository's host, and only there", () => {
    const found = credentialsOf(
      [{ url: "https://a.example/x" }, { url: "https://b.example/y" }],
      "t",
    )
    expect(found.map(({ origin }) => origin)).toEqual(["https://a.example"])
  })

  test("without a repository it goes to GitHub", () => {
    expect(credentialsOf([], "t")[0]?.origin).toBe("https://github.com")
  })

  test("a repository's own token comes before all", () => {
    const found = credentialsOf([{ url: "https://me:in-url@a.example/x", token: "own" }], "t")
    expect(found).toEqual([{ origin: "https://a.example", username: "oauth2", password: "own" }])
  })

  test("an ssh address gets none", () => {
    expect(credentialsOf([{ url: "git@a.example:x/y.git" }], "t")).toEqual([])
  })
})

test("git's question is read as git writes it", () => {
  expect(
    parseCredentialRequest("protocol=https\nhost=a.example\nwwwauth[]=Basic realm=x\n\n"),
  ).toEqual({
    protocol: "https",
    host: "a.example",
    "wwwauth[]": "Basic realm=x",
  })
})
