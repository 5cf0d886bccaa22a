/** The control server: which token grants which request; and which credential goes to which git host. */
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
import { credentialFor } from "../../../src/runner/host/repository-rules.ts"
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
    credentialFor: async (asked) =>
      credentialFor(
        [{ origin: "https://git.example", username: "oauth2", password: "secret" }],
        asked,
      ),
    runWorkflow: async (order, caller) => ({ ran: order, caller }),
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

describe("git credentials", () => {
  test("the API token and the owner token both get the git credential", async () => {
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
  ])("a request for %s://%s gets no credential", async (protocol, host) => {
    const asked = askControl(asAgent(), "/git-credential", question(protocol, host), 1000)
    expect(await refusalOf(asked)).toContain("no credential for that host")
  })

  test("a wrong token and a malformed request get no credential", async () => {
    const wrong = { url: control.url, token: "guessed" }
    expect(
      await refusalOf(askControl(wrong, "/git-credential", question("https", "git.example"), 1000)),
    ).toContain("not allowed")
    expect(await refusalOf(askControl(asAgent(), "/git-credential", "what?", 1000))).toContain(
      "no credential",
    )
  })
})

describe("snapshot hooks", () => {
  test("the owner token runs snapshot hooks", async () => {
    const address = await findControl(stateDir)
    expect(await askControl(address, "/hooks/pre-snapshot", {}, 1000)).toEqual({
      done: "pre-snapshot",
    })
    expect(ran).toEqual(["pre-snapshot"])
  })

  test("the agent cannot run hooks, and unknown hooks are rejected", async () => {
    expect(await refusalOf(askControl(asAgent(), "/hooks/pre-snapshot", {}, 1000))).toContain(
      "not allowed",
    )
    expect(
      await refusalOf(askControl(await findControl(stateDir), "/hooks/format-disk", {}, 1000)),
    ).toContain("not allowed")
    expect(ran).toEqual([])
  })
})

test("the API token and the owner token run workflows, and other tokens do not", async () => {
  const run = (address: { url: string; token: string }) =>
    askControl(address, "/workflow", { kind: "run" }, 1000)
  expect(await run(asAgent())).toEqual({ ran: { kind: "run" }, caller: "agent" })
  expect(await run(await findControl(stateDir))).toEqual({ ran: { kind: "run" }, caller: "owner" })
  expect(await refusalOf(run({ url: control.url, token: "guessed" }))).toContain("not allowed")
})

test("the token file is readable by its user only and is removed at the end", async () => {
  const file = join(stateDir, "session/control.json")
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  await control.stop()
  expect(existsSync(file)).toBeFalse()
  expect(await refusalOf(findControl(stateDir))).toContain("is the runner running?")
})

describe("credentials by origin", () => {
  test("the sandbox's token is for the first repository's host only", () => {
    const found = credentialsOf(
      [{ url: "https://a.example/x" }, { url: "https://b.example/y" }],
      "t",
    )
    expect(found.map(({ origin }) => origin)).toEqual(["https://a.example"])
  })

  test("the sandbox's token is for GitHub if there is no repository", () => {
    expect(credentialsOf([], "t")[0]?.origin).toBe("https://github.com")
  })

  test("a repository's own token takes precedence", () => {
    const found = credentialsOf([{ url: "https://me:in-url@a.example/x", token: "own" }], "t")
    expect(found).toEqual([{ origin: "https://a.example", username: "oauth2", password: "own" }])
  })

  test("an ssh address gets no credential", () => {
    expect(credentialsOf([{ url: "git@a.example:x/y.git" }], "t")).toEqual([])
  })
})

test("a credential request is parsed as git writes it", () => {
  expect(
    parseCredentialRequest("protocol=https\nhost=a.example\nwwwauth[]=Basic realm=x\n\n"),
  ).toEqual({
    protocol: "https",
    host: "a.example",
    "wwwauth[]": "Basic realm=x",
  })
})
