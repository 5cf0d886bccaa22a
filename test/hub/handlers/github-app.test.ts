/** Short-lived tokens of a GitHub App: who gets one, for what, and how the hub proves that it is the App. */
import { afterAll, expect, test } from "bun:test"
import { githubAppOf } from "../../../src/hub/handlers/github-app.ts"
import { createGitHost } from "../../../src/hub/handlers/git-host.ts"
import { storedResult } from "../../../src/hub/session/stored-result.ts"
import { startGithubApi } from "../../kit/github-api.ts"
import { makeAppKey } from "../../kit/github-app-key.ts"

const key = await makeAppKey()
const github = startGithubApi(
  [{ fullName: "birds/heron", defaultBranch: "main", isPrivate: true, files: {} }],
  { app: { id: "77", publicKey: key.publicKey, installation: "4242", lifeMs: 3_600_000 } },
)
afterAll(() => github.stop())

const environment = {
  GITHUB_APP_ID: "77",
  GITHUB_APP_PRIVATE_KEY: key.privatePem,
  GITHUB_APP_INSTALLATIONS: JSON.stringify({ "user:ann": 4242, "user:eve": "../../user" }),
  GITHUB_API_URL: github.url,
  GITHUB_SERVER_URL: "https://github.com",
}
const open = (token: string) =>
  fetch(`${github.url}/repos/birds/heron`, { headers: { Authorization: `Bearer ${token}` } })

test("the owner of an installation gets a token that opens its repositories for an hour", async () => {
  const issue = githubAppOf(environment, "user:ann", Date.now)
  const before = Date.now()
  const issued = await issue?.("https://github.com", ["birds/heron"])
  expect(issued?.expiresAt).toBeGreaterThan(before + 3_500_000)
  expect((await open(issued?.token ?? "")).status).toBe(200)
  expect(github.issued.at(-1)?.repositories).toEqual(["heron"])
})

test("an owner without an installation, or with one that is not a number, gets none", () => {
  for (const owner of ["user:bob", "user:eve", "org:birds", "user:toString"] as const)
    expect(githubAppOf(environment, owner, Date.now)).toBeUndefined()
  for (const text of ["", "not json", "[]", '"user:ann"'])
    expect(
      githubAppOf({ ...environment, GITHUB_APP_INSTALLATIONS: text }, "user:ann", Date.now),
    ).toBeUndefined()
})

test("a token is issued for the configured git host only", async () => {
  const issue = githubAppOf(environment, "user:ann", Date.now)
  expect(issue?.("https://evil.example", [])).rejects.toThrow("for https://github.com only")
})

test("a key that is not the App's gets no token, and a key of another format is explained", async () => {
  const other = await makeAppKey()
  const wrong = { ...environment, GITHUB_APP_PRIVATE_KEY: other.privatePem }
  const issue = githubAppOf(wrong, "user:ann", Date.now)
  expect(issue?.("https://github.com", [])).rejects.toThrow("answered 401")
  const odd = { ...environment, GITHUB_APP_PRIVATE_KEY: "-----BEGIN RSA PRIVATE KEY-----" }
  expect(githubAppOf(odd, "user:ann", Date.now)?.("https://github.com", [])).rejects.toThrow(
    "openssl pkcs8",
  )
})

test("without an App the request is refused with what to set, and so is one that names no repository or a path", async () => {
  const call = () => Promise.reject(new Error("unused"))
  const origin = async () => undefined
  const caller = { session: "s1", requestId: "r1" }
  const showPull = () => {}
  const bare = createGitHost({ call, origin, showPull })
  const ask = (host: typeof bare, ...repositories: string[]) =>
    host["git-token"]({ origin: "https://github.com", repositories }, caller)
  expect(ask(bare, "birds/heron")).rejects.toThrow("GITHUB_APP_ID")
  const host = createGitHost({
    showPull,
    call,
    origin,
    issueToken: async () => ({ token: "t", expiresAt: 1 }),
  })
  expect(ask(host)).rejects.toThrow("must name at least one")
  expect(ask(host, "birds/../../x")).rejects.toThrow("must name at least one")
  expect(await ask(host, "birds/heron")).toEqual({ token: "t", expiresAt: 1 })
})

test("the hub does not store the token of a request", () => {
  const stored = storedResult("git-token", { token: "ghs_secret", expiresAt: 1 })
  expect(JSON.stringify(stored)).not.toContain("ghs_secret")
  expect(stored).toEqual({ error: expect.stringContaining("ask for another one") })
})
