/**
 * Hub, fleet and local sandboxes with real OpenCode and the scripted model: what a client sees of them. Most tests share one thread,
 * whose first prompt is answered and whose workspace has work.txt; its sandbox runs when a test begins. Tests of a first prompt and of
 * an end have threads of their own.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { StoredSession } from "../../src/fleet/store/ports.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { changedLife } from "../fleet/kit/life.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

const THREAD = "C1:1700.1"
let model: ScriptedModel
let place: Sandbox
let stack: ServeStack
/** Of the shared thread. */
let client: TestClient
let session = ""

const localRoot = () => join(place.root, "fleet")
const openStore = () => openSqliteStore(join(place.root, "fleet.db"))

const start = (port = 0) =>
  startServe(place, model, {
    provider: createLocalProvider({
      root: localRoot(),
      self: runnerFromSource,
      clock: systemClock,
    }),
    store: openStore(),
    port,
    environment: { SANDPIPER_TOOLS: "all" },
  })

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  stack = await start()
  model.on("begin", [text("Begun.")])
  session = await prompt(THREAD, "p-begin", "@@begin@@")
  await connect()
  await answered("p-begin")
  writeFileSync(workspace("work.txt"), "kept\n")
})
beforeEach(async () => {
  await client.ask({ type: "abort", queued: true })
  const { body } = await call("POST", `/api/threads/${THREAD}/resolve?wait=1`)
  expect(body).toMatchObject({ sessionId: session, status: "running" })
})
afterAll(async () => {
  client?.close()
  await call("POST", `/api/sandbox/${session}/terminate?wait=1`)
  await stack.stop()
  await model.stop()
  await place.remove()
})

const call = async (method: string, path: string, body?: object, token = CLIENT_TOKEN) => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(body && { body: JSON.stringify(body) }),
  })
  const said = await response.text()
  const parsed = said.startsWith("{") ? (JSON.parse(said) as object) : { text: said }
  return { status: response.status, body: parsed as Record<string, unknown> }
}
const connect = async () => {
  client = await connectClient(stack.hub.url, CLIENT_TOKEN, { session })
}
/** Resolves with the session of the thread. */
const prompt = async (thread: string, messageId: string, message: string): Promise<string> => {
  const sent = await call("POST", `/api/threads/${thread}/prompt`, { message, messageId })
  expect(sent.status).toBe(200)
  return String(sent.body["sessionId"])
}
/** Sends a prompt to the shared thread and resolves with the agent's answer. */
const say = async (messageId: string, message: string): Promise<string> => {
  expect(await prompt(THREAD, messageId, message)).toBe(session)
  await answered(messageId)
  return client.answerTo(messageId)
}
const answered = (messageId: string, by = client): Promise<void> =>
  by.until(
    () =>
      by
        .messages()
        .some(
          ({ role, promptId, status }) =>
            role !== "user" && promptId === messageId && status !== "streaming",
        ),
    `the answer to ${messageId}`,
  )
/** OpenCode of a session's sandbox, behind the sandbox's gateway. */
const opencodeOf = async (id: string) => {
  const { ref } = await life()
  const { port } = boxOf(String(ref))
  const own = join(localRoot(), "files", encodeURIComponent(id))
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const read = (file: string) => Bun.file(`/proc/${pid}/${file}`).text()
    const command = await read("cmdline").catch(() => "")
    if (!command.includes("opencode\0serve")) continue
    const environment = (await read("environ").catch(() => "")).split("\0")
    if (!environment.some((one) => one.includes(own))) continue
    const name = "OPENCODE_SERVER_PASSWORD="
    const password = environment.find((one) => one.startsWith(name))?.slice(name.length) ?? ""
    return { url: `http://127.0.0.1:${port}/opencode`, password }
  }
  throw new Error("no OpenCode runs in the sandbox")
}
const life = async (of = session) => {
  const store = openStore()
  const stored = (await store.find(of)) as StoredSession
  await store.close()
  return stored.life
}
const boxOf = (ref: string) =>
  JSON.parse(readFileSync(join(localRoot(), "boxes", ref, "box.json"), "utf8")) as {
    readonly port: number
    readonly process: { readonly pid: number }
  }
const workspace = (file: string, of = session) =>
  join(localRoot(), "files", encodeURIComponent(of), "workspace", file)

const sessions = async () => {
  const { sandboxes } = (await call("GET", "/api/sandboxes")).body as {
    sandboxes: readonly { readonly sessionId: string }[]
  }
  return sandboxes.map(({ sessionId }) => sessionId)
}

describe("a thread of conversation", () => {
  test("the first prompt of a new thread starts a sandbox and is answered", async () => {
    model.on("hello", [text("Hello from the sandbox.")])
    const own = await prompt("C1:new", "p1", "@@hello@@")
    const listener = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: own })
    try {
      await answered("p1", listener)
      expect(listener.answerTo("p1")).toBe("Hello from the sandbox.")
      expect(await life(own)).toMatchObject({ phase: "running", generation: 1 })
    } finally {
      listener.close()
      await call("POST", `/api/sandbox/${own}/terminate?wait=1`)
      await call("DELETE", `/api/sandbox/${own}`)
    }
  })

  test("the next prompt of the thread uses the same sandbox", async () => {
    const { ref, generation } = await life()
    model.on("again", [
      tool("bash", { command: "echo written > again.txt", description: "write" }),
      text("Written."),
    ])
    expect(await say("p2", "@@again@@")).toBe("Written.")
    expect(await life()).toMatchObject({ phase: "running", generation, ref })
    expect(readFileSync(workspace("again.txt"), "utf8")).toBe("written\n")
  })

  test("a prompt for a paused sandbox wakes it", async () => {
    const { generation } = await life()
    const paused = await call("POST", `/api/sandbox/${session}/pause?wait=1`)
    expect(paused.body).toMatchObject({ status: "paused" })
    model.on("wake", [text("Awake.")])
    expect(await say("p3", "@@wake@@")).toBe("Awake.")
    expect(await life()).toMatchObject({ phase: "running", generation })
  })

  test("a stop of the thread ends the turn and puts the sandbox to sleep, and the next prompt wakes it", async () => {
    const { generation } = await life()
    model.on("endless", [
      tool("bash", { command: "touch begun.txt; sleep 600", description: "wait" }),
      text("Never said."),
    ])
    await prompt(THREAD, "p-endless", "@@endless@@")
    await untilTrue(() => existsSync(workspace("begun.txt")), "begin of the command")
    expect((await call("POST", `/api/threads/${THREAD}/stop`)).status).toBe(200)
    await answered("p-endless")
    await untilTrue(async () => (await life()).phase === "paused", "paused sandbox")
    model.on("after-stop", [text("Awake after the stop.")])
    expect(await say("p-after-stop", "@@after-stop@@")).toBe("Awake after the stop.")
    expect(await life()).toMatchObject({ phase: "running", generation })
  })

  test("after the runner was killed in its sandbox the next prompt is answered once", async () => {
    const before = await life()
    process.kill(boxOf(String(before.ref)).process.pid, "SIGKILL")
    await client.until(
      () => (client.state("runner") as { connected?: boolean } | undefined)?.connected === false,
      "the end of the connection",
    )
    // The time that a runner has to connect again is over.
    const store = openStore()
    await store.change(session, Date.now(), (row) => ({
      ...row,
      life: changedLife(row.life, { bootBy: Date.now() }),
      dueAt: Date.now(),
    }))
    await store.close()
    const calls = model.requests.length
    model.on("killed", [text("Back again.")])
    expect(await say("p4", "@@killed@@")).toBe("Back again.")
    expect(model.requests.length - calls).toBe(1)
    expect(readFileSync(workspace("work.txt"), "utf8")).toBe("kept\n")
  })

  test("a hibernated sandbox has no process, and the next prompt restores its files", async () => {
    const before = await life()
    const asleep = await call("POST", `/api/sandbox/${session}/hibernate?wait=1`)
    expect(asleep.body).toMatchObject({ status: "paused", providerSandboxId: null })
    expect(existsSync(join(localRoot(), "boxes", String(before.ref)))).toBe(false)
    model.on("restored", [
      tool("bash", { command: "cat work.txt", description: "read" }),
      text("Restored."),
    ])
    expect(await say("p5", "@@restored@@")).toBe("Restored.")
    expect(await life()).toMatchObject({ phase: "running", generation: before.generation + 1 })
    const shown =
      model.requests
        .at(-1)
        ?.messages.map((one) => JSON.stringify(one))
        .join("") ?? ""
    expect(shown).toContain("kept")
  })

  test("after the agent's session was deleted in OpenCode the next prompt is answered in a new one", async () => {
    const { url, password } = await opencodeOf(session)
    const headers = { authorization: `Basic ${btoa(`opencode:${password}`)}` }
    const list = async () =>
      (
        (await (await fetch(`${url}/session`, { headers })).json()) as readonly { id: string }[]
      ).map(({ id }) => id)
    const before = await list()
    expect(before.length).toBeGreaterThan(0)
    for (const id of before) await fetch(`${url}/session/${id}`, { method: "DELETE", headers })
    model.on("replaced", [text("In a new session.")])
    expect(await say("p7", "@@replaced@@")).toBe("In a new session.")
    const after = await list()
    expect(after.filter((id) => before.includes(id))).toEqual([])
    // The conversation that people see goes on.
    expect(client.answerTo("p-begin")).toBe("Begun.")
    const { body } = await call("GET", "/metrics", undefined, CLIENT_TOKEN)
    expect(String(body["text"])).toMatch(/sandpiper_session_replacements_total [1-9]/)
  })

  test("a file of a prompt is in the sandbox, and the agent's programs can read it", async () => {
    model.on("attached", [
      tool("bash", {
        command: "cat $(find . -name heron.txt | head -n 1)",
        description: "read the attachment",
      }),
      text("Read."),
    ])
    const url = `data:text/plain;base64,${btoa("grey and patient\n")}`
    const reply = await client.ask({
      type: "prompt",
      content: "@@attached@@",
      attachments: [{ type: "file", mime: "text/plain", url, filename: "heron.txt" }],
    })
    const promptId = String(reply["messageId"])
    await answered(promptId)
    expect(client.answerTo(promptId)).toBe("Read.")
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("grey and patient")
  })

  test("a picture in output/display reaches the client once", async () => {
    const png =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    model.on("display", [
      tool("bash", {
        command: `mkdir -p output/display && echo ${png} | base64 -d > output/display/x.png`,
        description: "draw",
      }),
      text("Drawn."),
    ])
    expect(await say("p8", "@@display@@")).toBe("Drawn.")
    const shown = () =>
      client.events.flatMap((event) =>
        event["type"] === "artifact" ? [event["artifact"] as { id: string; mime: string }] : [],
      )
    await client.until(() => shown().length > 0, "the picture")
    model.on("quiet", [text("Nothing new.")])
    expect(await say("p9", "@@quiet@@")).toBe("Nothing new.")
    expect(shown()).toHaveLength(1)
    const stored = await fetch(
      `${stack.hub.url}/sessions/${session}/artifacts/${String(shown()[0]?.id)}`,
      { headers: { authorization: `Bearer ${CLIENT_TOKEN}` } },
    )
    expect(Buffer.from(await stored.arrayBuffer()).toString("base64")).toBe(png)
  })

  test("files and programs of a paused sandbox are reached through the API, which wakes it", async () => {
    await call("POST", `/api/sandbox/${session}/pause?wait=1`)
    const form = new FormData()
    form.append("file", new File(["of the user"], "../../photo of a heron.txt"))
    const uploaded = await fetch(`${stack.hub.url}/api/sandbox/${session}/uploads`, {
      method: "POST",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      body: form,
    })
    expect(await uploaded.json()).toEqual({ paths: ["uploads/photo_of_a_heron.txt"] })
    const command = { command: "cat", args: ["uploads/photo_of_a_heron.txt"] }
    const ran = await call("POST", `/api/sandbox/${session}/exec`, command)
    expect(ran.body).toMatchObject({ exitCode: 0, stdout: "of the user" })
    const content = await fetch(
      `${stack.hub.url}/api/sandbox/${session}/files/content?path=work.txt`,
      { headers: { authorization: `Bearer ${CLIENT_TOKEN}` } },
    )
    expect(await content.text()).toBe("kept\n")
    const outside = await call("GET", `/api/sandbox/${session}/files/content?path=/etc/passwd`)
    expect(outside.status).toBeGreaterThanOrEqual(400)
  })

  test("a child session has a sandbox of its own, works in it and reports to its parent", async () => {
    const before = await sessions()
    model.on("child-task", [
      tool("bash", { command: "echo twig > nest.txt", description: "write" }),
      text("The nest is built."),
    ])
    model.on("spawn", [
      tool("spawn_session", { task: "@@child-task@@", workspace: "nest" }),
      text("I have asked a child."),
    ])
    expect(await say("p6", "@@spawn@@")).toBe("I have asked a child.")
    const isReport = (part: { readonly text?: string | undefined }) =>
      part.text?.endsWith("has finished its work. Its answer:\n\nThe nest is built.") === true
    await client.until(
      () => client.messages().some(({ role, parts }) => role === "user" && parts.some(isReport)),
      "the report of the child",
    )
    const child = (await sessions()).find((id) => !before.includes(id)) ?? ""
    const nest = workspace("nest.txt", child)
    expect(readFileSync(nest, "utf8")).toBe("twig\n")
    expect(existsSync(workspace("nest.txt"))).toBe(false)
    const ended = await call("POST", `/api/sandbox/${child}/terminate?wait=1`)
    expect(ended.body).toMatchObject({ status: "terminated" })
    expect(existsSync(nest)).toBe(false)
    await call("DELETE", `/api/sandbox/${child}`)
  })

  test("a new process of the fleet keeps the running sandbox", async () => {
    const before = await life()
    const { pid } = boxOf(String(before.ref)).process
    const known = await sessions()
    const { port } = stack.hub
    client.close()
    await stack.stop()
    stack = await start(port)
    await connect()
    const sandboxes = await call("GET", "/api/sandboxes")
    expect(await sessions()).toEqual(known)
    expect(sandboxes.body).toMatchObject({
      sandboxes: expect.arrayContaining([
        expect.objectContaining({ sessionId: session, providerSandboxId: before.ref }),
      ]),
    })
    expect(boxOf(String(before.ref)).process.pid).toBe(pid)
  })
})

describe("the fleet's API", () => {
  test("a request without the operator's token is refused", async () => {
    expect(await call("GET", "/api/sandboxes", undefined, "wrong")).toMatchObject({
      status: 401,
      body: { code: "unauthorized" },
    })
  })

  test("unknown sessions and paths are 404, and a sweep reports what it saw", async () => {
    expect((await call("GET", "/api/sandbox/none/status")).status).toBe(404)
    expect((await call("POST", "/api/sandbox/none/fly")).status).toBe(404)
    expect((await call("POST", "/api/sweep?dryRun=1")).body).toMatchObject({ leaked: [] })
    expect((await call("GET", "/api/providers")).body).toMatchObject({
      providers: [{ name: "local", capabilities: { supportsPause: true } }],
    })
  })

  test("a terminated session has no sandbox left and cannot be resumed", async () => {
    const { body } = await call("POST", "/api/threads/C1:ended/resolve?wait=1")
    const own = String(body["sessionId"])
    writeFileSync(workspace("work.txt", own), "kept\n")
    const ended = await call("POST", `/api/sandbox/${own}/terminate?wait=1`)
    expect(ended.body).toMatchObject({ status: "terminated" })
    expect((await call("POST", `/api/sandbox/${own}/resume`)).status).toBe(409)
    expect(existsSync(workspace("work.txt", own))).toBe(false)
    await call("DELETE", `/api/sandbox/${own}`)
  })
})
