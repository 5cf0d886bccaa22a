/** A workflow from creation to its result: stored by the hub, run by the runner, approved and read back over the API. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Database } from "bun:sqlite"
import { join } from "node:path"
import { z } from "zod"
import type { LocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { readFact } from "../../src/lib/state-db.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startHubBeside } from "../hub/kit/local-hub.ts"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import {
  createSandbox,
  runnerFromSource,
  type Sandbox,
  startRunner,
  type TestRunner,
} from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"

/** The pid makes this command line unique: other tests on this machine run `sleep` too. */
const LONG = `sleep 714.${process.pid}`
let model: ScriptedModel
let sandbox: Sandbox
let hub: LocalHub
let runner: TestRunner
let apiToken: string

beforeAll(async () => {
  model = await startScriptedModel()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  hub = await startHubBeside(sandbox, "test-session", model)
  const link = { url: hub.runnerUrl("test-session"), token: RUNNER_TOKEN }
  runner = await startRunner(link, {}, { in: sandbox })
  // The token that OpenCode's tools send to the gateway.
  const db = new Database(join(sandbox.stateDir, "session/state.db"), { readonly: true })
  apiToken = (readFact(db, "agent.api-token") ?? "").split(" ")[1] ?? ""
  db.close()
})

afterAll(async () => {
  await runner.stop()
  await hub.stop()
  await model.stop()
})

const api = async (method: string, path: string, body?: object) => {
  const answer = await fetch(`${runner.gatewayUrl}/api${path}`, {
    method,
    headers: { authorization: `Bearer ${apiToken}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  })
  return (await answer.json()) as Record<string, Record<string, unknown>>
}

const statusOf = async (id: string) => {
  const { execution } = await api("GET", `/executions/${id}`)
  return execution?.["status"]
}
const begin = async (slug: string, steps: readonly object[]): Promise<string> => {
  await api("POST", "/workflows/sync", { slug, name: slug, data: { steps } })
  const { execution } = await api("POST", "/workflows/run", { workflowId: slug })
  return String(execution?.["id"])
}
const proof = () => Bun.file(join(sandbox.workDir, "proof.txt"))

test("cancelling a running workflow ends its command", async () => {
  const id = await begin("slow", [
    { type: "bash", command: `echo begun > proof.txt; ${LONG}; echo over >> proof.txt` },
  ])
  const hasBegun = async () => (await proof().exists()) && (await proof().text()) === "begun\n"
  await untilTrue(hasBegun, "command")
  await api("POST", `/executions/${id}/cancel`, { reason: "enough" })
  const sleeps = () => Bun.spawnSync(["pgrep", "-fx", LONG]).stdout.toString()
  await untilTrue(() => sleeps() === "", "end of the command")
  expect(await statusOf(id)).toBe("cancelled")
  expect(await proof().text()).toBe("begun\n")
})

/** `sandpiper actions run` in the agent's shell. */
const runAction = (action: string, input: object) => {
  const child = Bun.spawn(
    [...runnerFromSource, "actions", "run", action, JSON.stringify(input), "--json"],
    {
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: sandbox.root,
        SANDPIPER_URL: runner.gatewayUrl,
        SANDPIPER_API_TOKEN: apiToken,
      },
      stdout: "pipe",
      stderr: "pipe",
    },
  )
  const said = { text: "", lines: "" }
  const listen = async () => {
    const decoder = new TextDecoder()
    for await (const bytes of child.stderr) said.text += decoder.decode(bytes)
  }
  void listen()
  const read = async () => {
    const decoder = new TextDecoder()
    for await (const bytes of child.stdout) said.lines += decoder.decode(bytes)
    return said.lines
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { execution: Record<string, unknown> })
  }
  return { child, lines: read(), said }
}

test("the command that runs a workflow waits for its end, and its exit code says how it ended", async () => {
  for (const [slug, command, status, code] of [
    ["fine", "echo done", "completed", 0],
    ["broken", "exit 3", "failed", 1],
  ] as const) {
    const gate = join(sandbox.root, `gate-of-${slug}`)
    const gated = `until [ -e ${gate} ]; do sleep 0.05; done; ${command}`
    const data = { steps: [{ type: "bash", command: gated }] }
    await api("POST", "/workflows/sync", { slug, name: slug, data })
    const { child, lines, said } = runAction("run-workflow", { workflowId: slug })
    await untilTrue(() => said.lines.includes("\n"), "the first line of the command")
    await Bun.write(gate, "")
    expect(await child.exited).toBe(code)
    const [first, last] = await lines
    expect(first?.execution).toMatchObject({ status: "running" })
    expect(last?.execution).toMatchObject({ id: first?.execution["id"], status })
  }
})

test("the command that runs a workflow waits for a person's approval, and one that reads the execution does not", async () => {
  const data = { steps: [{ type: "approval", id: "ok", prompt: "Go on?" }] }
  await api("POST", "/workflows/sync", { slug: "asks", name: "Asks", data })
  const { child, lines, said } = runAction("run-workflow", { workflowId: "asks" })
  const waiting = async () => {
    const { executions } = await api("GET", "/workflows/executions?workflowId=asks")
    const found = z.array(z.looseObject({ id: z.string(), status: z.string() })).parse(executions)
    return found.find((one) => one.status === "waiting_approval")?.id
  }
  await untilTrue(async () => (await waiting()) !== undefined, "the question")
  const id = String(await waiting())
  const read = runAction("get-execution", { id })
  expect(await read.child.exited).toBe(0)
  expect(await read.lines).toMatchObject([{ execution: { id, status: "waiting_approval" } }])
  const notice = "Waiting for a person to approve it.\n"
  await untilTrue(() => said.text === notice, "the notice of the command")
  expect(child.exitCode).toBeNull()
  await fetch(`${hub.url}/sessions/test-session/approve-execution`, {
    method: "POST",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify({ executionId: id, approve: true }),
  })
  expect(await child.exited).toBe(0)
  expect((await lines).at(-1)?.execution).toMatchObject({ id, status: "completed" })
  expect(said.text).toBe(notice)
})

test("a workflow runs to its approval, resumes when approved, and the hub returns its output and steps", async () => {
  model.on("sum", [text("All is well.")])
  const steps = [
    { type: "bash", id: "look", command: "echo {{variables.what}}" },
    { type: "approval", id: "ok", prompt: "Go on with {{outputs.look}}?" },
    { type: "agent", id: "sum", goal: "@@sum@@ {{outputs.look}}" },
  ]
  await api("POST", "/workflows/sync", { slug: "w", name: "W", data: { steps } })
  await api("POST", "/workflows/sync", {
    slug: "outer",
    name: "Outer",
    data: { steps: [{ type: "subworkflow", workflowId: "w", variables: { what: "it" } }] },
  })
  const { execution } = await api("POST", "/workflows/run", { workflowId: "outer" })
  const read = async () =>
    (await api("GET", `/executions/${String(execution?.["id"])}`))["execution"]
  const status = async (wanted: string) => {
    let seen: unknown
    const isWanted = async () => {
      seen = await read()
      return (seen as Record<string, unknown>)["status"] === wanted
    }
    await untilTrue(isWanted, () => `status ${wanted} but ${JSON.stringify(seen)}`)
  }
  await status("waiting_approval")
  const approval = (await read())?.["requiresApproval"] as Record<string, string>
  expect(approval).toMatchObject({ prompt: "Go on with it?" })
  // The agent neither sees the resume token nor may it approve: that is for a client.
  expect(approval).not.toHaveProperty("resumeToken")
  const id = String(execution?.["id"])
  const decided = await fetch(`${hub.url}/sessions/test-session/approve-execution`, {
    method: "POST",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify({ executionId: id, approve: true }),
  })
  expect(await decided.json()).toMatchObject({ ok: true })
  await status("completed")
  expect(await read()).toMatchObject({ output: "All is well." })
  const { steps: done } = await api("GET", `/executions/${String(execution?.["id"])}/steps`)
  expect(done).toMatchObject([
    { stepId: "step-1", status: "completed" },
    { stepId: "step-1/look", status: "completed", output: "it" },
    { stepId: "step-1/ok", status: "completed" },
    { stepId: "step-1/sum", status: "completed", output: "All is well." },
  ])
})
