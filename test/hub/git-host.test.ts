/** Pull requests through a git host's API, here one that only remembers. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { execa } from "execa"
import { startTestLocalHub, type TestLocalHub } from "./kit/local-hub.ts"

const calls: { method: string; path: string; body: unknown; authorization: string | null }[] = []
const pulls: Record<string, unknown>[] = []
let setup: TestLocalHub
let server: ReturnType<typeof Bun.serve>

beforeAll(async () => {
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const body =
        request.method === "GET" ? undefined : ((await request.json()) as Record<string, unknown>)
      const authorization = request.headers.get("authorization")
      calls.push({ method: request.method, path: pathname + search, body, authorization })
      if (pathname === "/repos/birds/heron") return Response.json({ default_branch: "trunk" })
      if (pathname === "/repos/birds/heron/pulls" && request.method === "POST") {
        const made = {
          number: pulls.length + 1,
          html_url: "https://host/pull/1",
          state: "open",
          ...body,
        }
        pulls.push(made)
        return Response.json(made, { status: 201 })
      }
      if (pathname === "/repos/birds/heron/pulls") return Response.json(pulls)
      if (pathname === "/repos/birds/heron/contents/a%20b.txt") {
        return Response.json({ content: Buffer.from("grüße").toString("base64") })
      }
      return Response.json({ message: "Not Found" }, { status: 404 })
    },
  })
  const environment = {
    PATH: "/usr/bin:/bin",
    GITHUB_TOKEN: "token-of-the-test",
    GITHUB_API_URL: server.url.origin,
  }
  setup = await startTestLocalHub({ environment })
  const git = (...args: string[]) => execa("git", args, { cwd: setup.folder })
  await git("init", "-q")
  await git("remote", "add", "origin", "git@github.com:birds/heron.git")
})
afterAll(async () => {
  await setup.stop()
  await server.stop(true)
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
  expect(calls.find(({ method }) => method === "POST")?.body).toMatchObject({
    head: "fix",
    base: "trunk",
  })
  expect(await setup.runner.uplink.request("create-pr", asked)).toMatchObject({ number: 1 })
  expect(pulls).toHaveLength(1)
  expect(new Set(calls.map(({ authorization }) => authorization))).toEqual(
    new Set(["Bearer token-of-the-test"]),
  )
})

test("a file is read without a clone, and what the host refuses is said in its words", async () => {
  const read = (path: string) =>
    setup.runner.uplink.request("read-repo-file", { owner: "birds", repo: "heron", path })
  expect(await read("a b.txt")).toMatchObject({ content: "grüße", repo: "birds/heron" })
  expect(read("none")).rejects.toThrow("the git host answered 404: Not Found")
  expect(
    setup.runner.uplink.request("list-pull-requests", { owner: "../..", repo: "x" }),
  ).rejects.toThrow("is no name of an owner")
})
