/** A workflow with a repository, a branch or a commit: it runs in a child session whose checkout has them. Each test has its own hub. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type GitServer, startGitServer } from "../../../kit/git-server.ts"
import { hashOf } from "../../../../src/hub/keys.ts"
import { startFakeRunner } from "../../kit/fake-runner.ts"
import { RUNNER_TOKEN } from "../../kit/hub.ts"
import { startTestLocalHub, type TestLocalHub } from "../../kit/local-hub.ts"
import { untilTrue } from "../../../kit/until-true.ts"

let setup: TestLocalHub
let server: GitServer
let programs: string

/** In place of the runner: it records its environment and waits. The hub's side is what this file tests. */
const PROGRAM = "#!/bin/sh\nenv > ./environment\nexec cat > /dev/null\n"

beforeEach(async () => {
  programs = await mkdtemp(join(tmpdir(), "fake-runner-"))
  const program = join(programs, "runner")
  await Bun.write(program, PROGRAM)
  await chmod(program, 0o755)
  setup = await startTestLocalHub({ self: [program], environment: { PATH: "/usr/bin:/bin" } })
  server = await startGitServer()
  await server.commit("heron", "main.txt", "main")
  await server.commit("heron", "other.txt", "other", "other")
  await setup.runner.uplink.request("workflow-sync", {
    slug: "build",
    name: "build",
    data: { steps: [{ id: "one", type: "bash", command: "true" }] },
  })
})
afterEach(async () => {
  await setup.stop()
  await server.stop()
  await rm(programs, { recursive: true, force: true })
})

test("a workflow with a repository and a branch is ordered in a child session that has them, and the parent gets its end", async () => {
  const { request } = setup.runner.uplink
  const { execution } = await request("workflow-run", {
    workflowId: "build",
    repoUrl: server.url("heron"),
    branch: "other",
  })
  const child = String(execution["sessionId"])
  const folder = join(setup.folder, "state", "children", child)
  expect(readFileSync(join(folder, "workspace", "other.txt"), "utf8")).toBe("other")
  expect((await request("list-child-sessions", {})).children).toMatchObject([
    { id: child, status: "running" },
  ])
  await untilTrue(() => existsSync(join(folder, "environment")), "start of the child")
  await untilTrue(
    () => readFileSync(join(folder, "environment"), "utf8").includes("PARENT_SESSION_ID=s1"),
    "name of the parent",
  )
  // A runner of this test takes the place of the child's.
  setup.hub.find(child)?.setRunnerToken(await hashOf(RUNNER_TOKEN))
  const runner = startFakeRunner({
    url: setup.hub.runnerUrl(child),
    token: RUNNER_TOKEN,
    stateDir: join(setup.folder, "child-runner"),
  })
  const orders = () =>
    runner.frames.flatMap((one) => (one.type === "workflow-execute" ? [one] : []))
  await untilTrue(() => orders().length === 1, "order")
  const executionId = orders()[0]?.executionId ?? ""
  const envelope = { ok: true, status: "ok" as const, executionId }
  runner.send({ type: "workflow-execution-result", executionId, envelope })
  const isEnd = ({ content }: { readonly content: string }) => content.includes("has ended")
  await untilTrue(() => setup.runner.prompts.some(isEnd), "report")
  expect(setup.runner.prompts.find(isEnd)?.content).toContain(
    `The workflow run ${executionId} has ended: ok.`,
  )
  await untilTrue(() => setup.hub.find(child)?.status().status === "ended", "end of the child")
  await runner.stop()
})

test("a workflow that does not exist leaves no child session behind", async () => {
  const { request } = setup.runner.uplink
  const run = request("workflow-run", { workflowId: "none", repoUrl: server.url("heron") })
  expect(await run.then(String, String)).toContain("none")
  const { children } = await request("list-child-sessions", {})
  expect(children.filter(({ status }) => status === "running")).toEqual([])
})

test("child sessions are bounded in number and depth", async () => {
  const limited = await startTestLocalHub({ self: ["/bin/cat"], maxChildren: 0 })
  const task = { task: "work", workspace: "w" }
  const tooMany = limited.runner.uplink.request("spawn-child", task)
  expect(await tooMany.then(String, String)).toContain("0 child sessions are running already")
  await limited.stop()
  const shallow = await startTestLocalHub({ self: ["/bin/cat"], maxChildDepth: 0 })
  const tooDeep = shallow.runner.uplink.request("spawn-child", task)
  expect(await tooDeep.then(String, String)).toContain("cannot start child sessions")
  await shallow.stop()
})
