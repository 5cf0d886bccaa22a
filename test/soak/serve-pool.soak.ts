/** The warm pool of local sandboxes, with the compiled program, real OpenCode and the scripted model. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { isReady } from "../../src/fleet/core/pool.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type GitServer, startGitServer } from "../kit/git-server.ts"
import { type GithubHost, startGithubHost } from "../kit/github-host.ts"
import { recordingLog } from "../kit/log.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, postToServe, startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

const SECRET = "ghp_tokenOfTheOwnerCarol"
const TOKENS = { carol: SECRET, dave: "ghp_tokenOfTheOwnerDave" } as const
let model: ScriptedModel
let place: Sandbox
let store: FleetStore
let stack: ServeStack
const clients: TestClient[] = []
const lines: string[] = []
let git: GitServer
let github: GithubHost
let restarted: Bun.Subprocess | undefined

const localRoot = () => join(place.root, "fleet")

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  store = openSqliteStore(":memory:")
  stack = await startServe(place, model, {
    provider: createLocalProvider({
      root: localRoot(),
      self: [requireBinary()],
      clock: systemClock,
    }),
    store: { ...store, close: async () => {} },
    poolSize: 1,
    environment: {
      GITHUB_TOKENS: JSON.stringify({ "user:carol": TOKENS.carol, "user:dave": TOKENS.dave }),
    },
    log: recordingLog(lines),
  })
  git = await startGitServer()
  for (const owner of Object.keys(TOKENS)) await git.commit(owner, "README.md", "nest\n")
  github = await startGithubHost(git, TOKENS)
})
afterAll(async () => {
  for (const client of clients) client.close()
  restarted?.kill()
  await restarted?.exited
  await stack.pool.stop()
  await endSandboxes(stack, store)
  await stack.stop()
  await store.close()
  await model.stop()
  await github.stop()
  await git.stop()
  await place.remove()
})

const waiting = async () =>
  (await store.pooled()).find(({ kind, life }) => kind === "pool" && isReady(life))
/** Its runner has connected, and has said that it takes git credentials. */
const untilFull = () =>
  untilTrue(
    async () => stack.hub.find((await waiting())?.id ?? "")?.runner.git.isAccepted() === true,
    "a sandbox in the pool",
  )
const boxOf = (ref: string) =>
  JSON.parse(readFileSync(join(localRoot(), "boxes", ref, "box.json"), "utf8")) as {
    readonly process: { readonly pid: number }
  }

test("a thread's first prompt is answered in a sandbox that was started ahead, and another one takes its place", async () => {
  await untilFull()
  const warm = await waiting()
  const id = warm?.id ?? ""
  const { pid } = boxOf(String(warm?.life.ref)).process
  // Nothing of any owner has been in this process.
  expect(readFileSync(`/proc/${pid}/environ`, "utf8")).not.toContain(SECRET)

  model.on("nest", [
    tool("bash", { command: "echo twig > nest.txt", description: "write" }),
    text("Built."),
  ])
  const prompt = { message: "@@nest@@", messageId: "p1" }
  expect(await postToServe(stack, "/api/threads/C1:1/prompt", prompt)).toMatchObject({
    sessionId: id,
    status: "running",
    generation: 1,
  })
  const view = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: id })
  clients.push(view)
  await view.until(() => view.answerTo("p1") === "Built.", "the answer")
  const workspace = join(localRoot(), "files", encodeURIComponent(id), "workspace")
  expect(readFileSync(join(workspace, "nest.txt"), "utf8")).toBe("twig\n")
  // The very process that waited has worked.
  expect(boxOf(String(warm?.life.ref)).process.pid).toBe(pid)
  expect(existsSync(`/proc/${pid}`)).toBe(true)

  await untilFull()
  expect((await waiting())?.id).not.toBe(id)
  expect(readdirSync(join(localRoot(), "boxes"))).toHaveLength(2)
}, 170_000)

test("the config of a new session of the page reaches the agent in a sandbox that was started ahead", async () => {
  await untilFull()
  const id = (await waiting())?.id ?? ""
  const created = { config: { instructions: ["Wade slowly, beak down."] } }
  expect(await postToServe(stack, "/sessions", created)).toMatchObject({ ok: true, session: id })
  model.on("wade", [text("Waded.")])
  const view = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: id })
  clients.push(view)
  const { messageId } = await view.ask({ type: "prompt", content: "@@wade@@" })
  await view.until(() => view.answerTo(String(messageId)) === "Waded.", "the answer")
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("Wade slowly, beak down.")
}, 170_000)

/** The files below this test's directories, and the running processes, that contain a text. */
const holdersOf = (secret: string): readonly string[] => {
  const files = Bun.spawnSync(["grep", "-rlaF", "-e", secret, place.root]).stdout.toString()
  const processes = readdirSync("/proc").filter((id) => /^\d+$/.test(id))
  const holds = (path: string): boolean => {
    try {
      return readFileSync(path).includes(secret)
    } catch {
      // The process has ended meanwhile.
      return false
    }
  }
  return [
    ...files.split("\n").filter((file) => file !== ""),
    ...processes
      .flatMap((id) => [`/proc/${id}/environ`, `/proc/${id}/cmdline`])
      .filter((path) => !path.startsWith(`/proc/${process.pid}/`) && holds(path)),
  ]
}

test("two owners with git tokens get sandboxes that were started ahead, and git of each agent uses its owner's token", async () => {
  const viaGithub = ["git", ...github.options].join(" ")
  for (const [owner, token] of Object.entries(TOKENS)) {
    await untilFull()
    const warm = await waiting()
    const id = warm?.id ?? ""
    const command = [
      "env > environment.txt",
      `${viaGithub} clone --quiet https://github.com/${owner}.git nest`,
      "cd nest && echo twig > twig.txt && git add twig.txt",
      `git -c user.name=${owner} -c user.email=${owner}@example.com commit --quiet -m twig`,
      `${viaGithub} push --quiet origin HEAD:refs/heads/done`,
    ].join(" && ")
    model.on(`push-${owner}`, [tool("bash", { command, description: "push" }), text("Pushed.")])
    const prompt = { message: `@@push-${owner}@@`, messageId: `push-${owner}` }
    expect(await postToServe(stack, "/api/threads/own/prompt", prompt, owner)).toMatchObject({
      sessionId: id,
      generation: 1,
    })
    const view = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: id })
    clients.push(view)
    await view.until(() => view.answerTo(prompt.messageId) === "Pushed.", "the answer")
    expect(new Set(github.passwords(owner))).toEqual(new Set([token]))
    const pushed = await runToEnd(["git", "ls-remote", git.url(owner), "refs/heads/done"], {
      env: { PATH: process.env["PATH"] ?? "" },
    })
    expect(pushed.out).toContain("refs/heads/done")
    expect(JSON.stringify(view.events)).not.toContain(token)
  }
  for (const token of Object.values(TOKENS)) {
    expect(holdersOf(token)).toEqual([])
    expect(lines.join("\n")).not.toContain(token)
  }
}, 170_000)

test("the agent's git has the owner's token again after its runner was killed and started again", async () => {
  const session = await store.findThread("user:carol", "own")
  const id = session?.id ?? ""
  const { pid } = boxOf(String(session?.life.ref)).process
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, "utf8").split("\0")
  const argv = read("cmdline").filter((word) => word !== "")
  const env = Object.fromEntries(
    read("environ").flatMap((line) => {
      const at = line.indexOf("=")
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1)]] : []
    }),
  )
  const cwd = readlinkSync(`/proc/${pid}/cwd`)
  process.kill(pid, "SIGKILL")
  await untilTrue(() => stack.hub.find(id)?.activity().connected === false, "the cut link")
  // The same program in the same sandbox, as its supervisor starts it. The fleet waits a minute for it.
  restarted = Bun.spawn(argv, { env, cwd, stdin: "ignore", stdout: "ignore", stderr: "ignore" })
  const before = github.passwords("carol").length
  const command = `git ${github.options.join(" ")} ls-remote https://github.com/carol.git`
  model.on("again", [tool("bash", { command, description: "list" }), text("Listed.")])
  const prompt = { message: "@@again@@", messageId: "p3" }
  await postToServe(stack, "/api/threads/own/prompt", prompt, "carol")
  const view = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: id })
  clients.push(view)
  await view.until(() => view.answerTo("p3") === "Listed.", "the answer", 100_000)
  expect(new Set(github.passwords("carol").slice(before))).toEqual(new Set([TOKENS.carol]))
  // It is the same sandbox, and the token is still in memory only.
  expect((await store.find(id))?.life.generation).toBe(1)
  expect(holdersOf(TOKENS.carol)).toEqual([])
}, 170_000)
