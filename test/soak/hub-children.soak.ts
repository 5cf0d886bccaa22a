/** Child sessions with the compiled binary: each has its own OpenCode and workspace, connected to one hub. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { chmod } from "node:fs/promises"
import { join } from "node:path"
import type { LocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { type FakeRunner, startFakeRunner } from "../hub/kit/fake-runner.ts"
import { untilEqual, untilTrue } from "../kit/until-true.ts"
import { RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startHubBeside } from "../hub/kit/local-hub.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"

const binary = requireBinary()
let model: ScriptedModel
let sandbox: Sandbox
let hub: LocalHub
let parent: FakeRunner

beforeAll(async () => {
  model = await startScriptedModel()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  hub = await startHubBeside(sandbox, "parent", model, {
    stateDir: sandbox.stateDir,
    self: [binary],
  })
  parent = startFakeRunner({
    url: hub.runnerUrl("parent"),
    token: RUNNER_TOKEN,
    stateDir: join(sandbox.root, "parent"),
  })
})

afterAll(async () => {
  await parent.stop()
  await hub.stop()
  await model.stop()
  await sandbox.remove()
})

const answersOf = (id: string): readonly string[] =>
  hub
    .find(id)
    ?.recent(50)
    .filter(({ role, status }) => role === "assistant" && status === "done")
    .map(({ parts }) => parts.map((part) => part.text ?? "").join("")) ?? []

test("three child sessions are spawned, work, are messaged, read, forwarded, listed, and end with their parent", async () => {
  const ask = parent.uplink.request
  const ids: string[] = []
  for (const name of ["one", "two", "three"]) {
    model.on(name, [text(`answer of ${name}`)])
    const spawned = await ask("spawn-child", { task: `please @@${name}@@`, workspace: name })
    ids.push(spawned.childSessionId)
  }
  const [one = "", two = "", three = ""] = ids
  await untilTrue(() => ids.every((id) => answersOf(id).length === 1), "three answers", 150_000)
  expect(ids.map((id) => answersOf(id)[0])).toEqual([
    "answer of one",
    "answer of two",
    "answer of three",
  ])

  model.on("again", [text("second answer")])
  await ask("session-message", { targetSessionId: two, content: "@@again@@" })
  await untilTrue(() => answersOf(two).length === 2, "second answer")
  const { messages } = await ask("session-messages", { targetSessionId: two })
  expect(messages.map(({ content }) => content)).toEqual([
    "please @@two@@",
    "answer of two",
    "@@again@@",
    "second answer",
  ])
  expect(await ask("forward-messages", { targetSessionId: one })).toEqual(
    expect.objectContaining({ count: 2, sourceSessionId: one }),
  )
  const { children } = await ask("list-child-sessions", {})
  expect(children).toMatchObject(ids.map((id) => ({ id, status: "running", connected: true })))
  expect((await ask("get-session-status", { targetSessionId: three })).sessionStatus).toMatchObject(
    { status: "running", working: 0 },
  )

  await ask("terminate-child", { childSessionId: one })
  expect((await ask("list-child-sessions", {})).children[0]).toMatchObject({ status: "ended" })
  expect(await pidsOf(one)).toEqual([])
  expect((await pidsOf(two)).length).toBeGreaterThan(0)

  parent.send({ type: "self-terminate" })
  await untilTrue(
    () => [two, three].every((id) => hub.find(id)?.status().status === "ended"),
    "end of the others",
  )
  await untilEqual(
    async () => [await pidsOf(two), await pidsOf(three)],
    [[], []],
    "end of the processes of the others",
  )
}, 300_000)

/** The processes of a child session: its id is in their environment, as part of the state directory. */
const pidsOf = async (id: string): Promise<readonly string[]> => {
  const found: string[] = []
  for (const pid of new Bun.Glob("[0-9]*").scanSync({ cwd: "/proc", onlyFiles: false })) {
    const environment = await Bun.file(`/proc/${pid}/environ`)
      .text()
      .catch(() => "")
    if (environment.includes(id)) found.push(pid)
  }
  return found
}

test("a child whose parent died stops when its standard input ends", async () => {
  const child = Bun.spawn([binary, "run"], {
    env: {
      ...sandbox.environment,
      SANDPIPER_STATE_DIR: join(sandbox.root, "orphan"),
      STOP_WITH_STDIN: "1",
    },
    stdin: "pipe",
    stdout: "ignore",
    stderr: Bun.file(join(sandbox.root, "orphan.log")),
  })
  const log = () => readFileSync(join(sandbox.root, "orphan.log"), "utf8")
  await untilTrue(() => log().includes("daemon.started"), "start")
  await child.stdin.end()
  expect(await child.exited).toBe(0)
  expect(log()).toContain("the standard input has ended")
})

test.if(process.getuid?.() === 0)(
  "children of a hub that runs as root with AGENT_USER start, and their agent is that user",
  async () => {
    const own = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
    await chmod(own.root, 0o711)
    const rootHub = await startHubBeside(own, "parent", model, {
      stateDir: own.stateDir,
      self: [binary],
      environment: { ...own.environment, AGENT_USER: "nobody" },
    })
    await chmod(own.stateDir, 0o711)
    const asking = startFakeRunner({
      url: rootHub.runnerUrl("parent"),
      token: RUNNER_TOKEN,
      stateDir: join(own.root, "parent"),
    })
    model.on("who", [
      tool("bash", { command: "id -un; touch made.txt; stat -c %U made.txt", description: "who" }),
      text("asked"),
    ])
    const { childSessionId } = await asking.uplink.request("spawn-child", {
      task: "please @@who@@",
      workspace: "who",
    })
    const shown = () => JSON.stringify(rootHub.find(childSessionId)?.recent(50) ?? [])
    await untilTrue(() => shown().includes("asked"), "the answer of the child", 100_000)
    expect(shown()).toContain("nobody\\nnobody")
    await asking.stop()
    await rootHub.stop()
    await own.remove()
  },
)
