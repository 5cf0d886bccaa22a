/**
 * The sandbox under the control plane's key, through the whole runner: files, edits, a watch, programs, a shell; and an
 * action of the command line that waits for a person at the hub.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Database } from "bun:sqlite"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { WebSocket } from "ws"
import { signControlToken } from "../../src/lib/control-token.ts"
import { readFact } from "../../src/lib/state-db.ts"
import { untilTrue } from "../kit/until-true.ts"
import { type HubConversation, startHubConversation } from "../kit/hub-conversation.ts"
import { runnerFromSource } from "../kit/runner.ts"

let c: HubConversation
beforeAll(async () => {
  c = await startHubConversation({ APPROVE_ACTIONS: "register-tunnel" })
})
afterAll(() => c.stop())

const token = () =>
  signControlToken({
    key: "a secret of the tests only",
    sessionId: "test-session",
    jti: crypto.randomUUID(),
    now: Date.now(),
  })
const call = async (method: string, path: string, body?: string | object): Promise<Response> =>
  fetch(`${c.runner.gatewayUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${await token()}` },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  })
const json = async (method: string, path: string, body?: string | object) => {
  const response = await call(method, path, body)
  expect(response.status).toBe(200)
  return (await response.json()) as Record<string, unknown>
}
const inWorkspace = (path: string) => join(c.sandbox.workDir, path)

/** The server-sent events of a response, as they arrive. */
const follow = (response: Response) => {
  const state = { text: "", isOver: false }
  const read = async () => {
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) state.text += decoder.decode(bytes)
    state.isOver = true
  }
  void read().catch(() => {})
  return state
}

describe("the control key", () => {
  test("a file is written, read back, edited and seen by a watch", async () => {
    const watched = await call("GET", "/v1/fs/watch?path=.&recursive=true")
    const events = follow(watched)
    await untilTrue(() => events.text.includes("ready"), "the start of the watch")
    await json("PUT", "/v1/fs/file?path=notes/a.txt", "one two")
    expect(await readFile(inWorkspace("notes/a.txt"), "utf8")).toBe("one two")
    expect(await (await call("GET", "/v1/fs/file?path=notes/a.txt")).text()).toBe("one two")
    const edit = { path: "notes/a.txt", oldText: "two", newText: "2" }
    expect(await json("POST", "/v1/fs/edit", edit)).toMatchObject({ replacements: 1 })
    expect(await readFile(inWorkspace("notes/a.txt"), "utf8")).toBe("one 2")
    await untilTrue(() => events.text.includes("notes"), "the change in the watch")
    await watched.body?.cancel().catch(() => {})
  })

  test("a background program has logs, takes a signal and is listed as exited", async () => {
    const command = "trap 'echo got it; exit 7' USR1; echo started; while :; do sleep 0.05; done"
    const started = await json("POST", "/v1/processes", { command: "sh", args: ["-c", command] })
    const id = String(started["id"])
    const logs = follow(await call("GET", `/v1/processes/${id}/logs?follow=true`))
    const output = () =>
      [...logs.text.matchAll(/"data":"([^"]*)"/g)].map(([, data = ""]) => atob(data)).join("")
    await untilTrue(() => output().includes("started"), "the first line")
    await json("POST", `/v1/processes/${id}/signal`, { signal: "SIGUSR1" })
    await untilTrue(() => logs.isOver, "the end of the logs")
    // The signal goes to the whole group, so the shell also reports that it ended `sleep`.
    expect(output()).toMatch(/^started\n(.*\n)?got it\n$/)
    expect(await json("GET", `/v1/processes/${id}`)).toMatchObject({
      status: "exited",
      exitCode: 7,
    })
  })

  test("a program runs to its end, and a shell opens over a WebSocket", async () => {
    const result = await json("POST", "/v1/processes/run", { command: "pwd" })
    expect(result).toMatchObject({ exitCode: 0, stdout: `${c.sandbox.workDir}\n` })
    const socket = new WebSocket(`${c.runner.gatewayUrl.replace("http", "ws")}/api/terminal`, {
      headers: { authorization: `Bearer ${await token()}` },
    })
    let text = ""
    socket.on("message", (data: Buffer) => {
      text += data.toString("latin1")
    })
    await new Promise((resolve) => socket.on("open", resolve))
    socket.send("echo $((40 + 2))=answer\r")
    await untilTrue(() => text.includes("42=answer"), "the shell's output")
    socket.terminate()
  })

  test("the tools' token opens no program, and a wrong key nothing", async () => {
    const headers = { authorization: `Bearer ${apiToken()}` }
    const run = await fetch(`${c.runner.gatewayUrl}/v1/processes`, { headers })
    expect(run.status).toBe(401)
    const wrong = await signControlToken({
      key: "another key of the tests",
      sessionId: "test-session",
      jti: "x",
      now: Date.now(),
    })
    const file = await fetch(`${c.runner.gatewayUrl}/v1/fs/entries`, {
      headers: { authorization: `Bearer ${wrong}` },
    })
    expect(file.status).toBe(401)
  })
})

const apiToken = (): string => {
  const db = new Database(join(c.sandbox.stateDir, "session/state.db"), { readonly: true })
  const fact = (readFact(db, "agent.api-token") ?? "").split(" ")[1] ?? ""
  db.close()
  return fact
}

describe("an action that needs an approval", () => {
  const run = (name: string) => {
    const input = JSON.stringify({ name, port: 4999 })
    const child = Bun.spawn([...runnerFromSource, "actions", "run", "register-tunnel", input], {
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: c.sandbox.root,
        SANDPIPER_URL: c.runner.gatewayUrl,
        SANDPIPER_API_TOKEN: apiToken(),
      },
      stdout: "pipe",
      stderr: "pipe",
    })
    return { child, stderr: new Response(child.stderr).text() }
  }
  const asked = (name: string) =>
    c.client.events
      .map((event) => event["interaction"] as { id: string; status: string; patterns?: string[] })
      .findLast((one) => one?.patterns?.some((pattern) => pattern.includes(`"${name}"`)))
  const tunnels = () =>
    (c.client.state("tunnels") as { name: string }[] | undefined)?.map(({ name }) => name) ?? []

  test("an action that needs an approval waits for the person's yes at the hub, then has its effect", async () => {
    const { child } = run("allowed")
    await c.client.until(() => asked("allowed") !== undefined, "the question")
    expect(asked("allowed")).toMatchObject({
      kind: "permission",
      title: "Run the action register-tunnel",
      status: "open",
    })
    expect(tunnels()).not.toContain("allowed")
    await c.client.ask({ type: "permission", id: asked("allowed")?.id, reply: "once" })
    expect(await child.exited).toBe(0)
    await c.client.until(() => tunnels().includes("allowed"), "the tunnel")
  })

  test("an action that needs an approval is not carried out after a no, and the command says so", async () => {
    const { child, stderr } = run("denied")
    await c.client.until(() => asked("denied") !== undefined, "the question")
    await c.client.ask({ type: "permission", id: asked("denied")?.id, reply: "reject" })
    expect(await child.exited).toBe(1)
    expect(await stderr).toContain("a person has denied it")
    expect(tunnels()).not.toContain("denied")
  })
})
