/** A sandbox that loses its disk during a workflow: the next runner does not run the workflow again. */
import { Database } from "bun:sqlite"
import { afterEach, expect, test } from "bun:test"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import type { LocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { readFact } from "../../src/lib/state-db.ts"
import { RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startHubBeside } from "../hub/kit/local-hub.ts"
import { type Booted, boot } from "../kit/boot.ts"
import { type ScriptedModel, startScriptedModel } from "../kit/model.ts"
import { createSandbox, type Sandbox } from "../kit/runner.ts"

const SESSION = "test-session"
let model: ScriptedModel
let sandbox: Sandbox
let hub: LocalHub
let booted: Booted

afterEach(async () => {
  if (booted.child.exitCode === null) await booted.stop()
  await hub.stop()
  await model.stop()
  await sandbox.remove()
})

/** Calls the gateway with the token that OpenCode's tools have in this boot. */
const api = async (method: string, path: string, body?: object) => {
  const port = await booted.port()
  const db = new Database(join(sandbox.stateDir, "session/state.db"), { readonly: true })
  const token = (readFact(db, "agent.api-token") ?? "").split(" ")[1] ?? ""
  db.close()
  const answer = await fetch(`http://127.0.0.1:${port}/api${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  })
  return (await answer.json()) as Record<string, Record<string, unknown> | undefined>
}

test("a workflow whose sandbox loses its disk runs once and is reported as failed", async () => {
  model = await startScriptedModel()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  hub = await startHubBeside(sandbox, SESSION, model)
  sandbox.environment["DO_WS_URL"] = hub.runnerUrl(SESSION)
  // Outside the state directory: it stands for what the workflow has done in the world.
  const proof = () => Bun.file(join(sandbox.workDir, "deployments.log"))
  const steps = [
    { type: "bash", id: "deploy", command: "echo deployed >> deployments.log" },
    { type: "bash", id: "wait", command: "sleep 600" },
  ]
  booted = boot(sandbox)
  await api("POST", "/workflows/sync", { slug: "w", name: "W", data: { steps } })
  const { execution } = await api("POST", "/workflows/run", { workflowId: "w" })
  const id = String(execution?.["id"])
  await booted.until(() => proof().exists(), "the first deployment")
  // At once: the hub may not have the acceptance, but it knows which disk it sent the order to.
  process.kill(booted.pid(), "SIGKILL")
  await booted.child.exited
  await rm(sandbox.stateDir, { recursive: true, force: true })
  booted = boot(sandbox)
  const read = async () => (await api("GET", `/executions/${id}`))["execution"]
  await booted.until(async () => (await read())?.["status"] === "failed", "failure")
  expect(String((await read())?.["error"])).toContain("journal is lost")
  expect(await proof().text()).toBe("deployed\n")
}, 150_000)
