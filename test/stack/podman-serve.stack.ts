/** The compiled `serve --provider docker` with a real Podman: OpenCode in a container answers the prompts of a thread. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, repositoryRoot, requireBinary, type Sandbox } from "../kit/runner.ts"
import { until } from "./kit.ts"
import { type Podman, startPodman } from "./podman.ts"

const IMAGE = "localhost/sandpiper:serve"
const ANSWER_MS = 100_000

let podman: Podman
let model: ScriptedModel
let place: Sandbox
let server: Served

interface Served {
  readonly url: string
  readonly token: string
  readonly end: (signal: "SIGTERM" | "SIGKILL") => Promise<void>
}

/** The same state directory after a restart: port, token and sessions stay. */
const startServe = async (): Promise<Served> => {
  const files = ["out", "err"].map((kind) =>
    join(place.root, `serve-${crypto.randomUUID()}.${kind}`),
  )
  const [out = "", errors = ""] = files
  const printed = () =>
    files.map((file) => (existsSync(file) ? readFileSync(file, "utf8") : "")).join("")
  const state = join(place.root, "serve")
  const child = Bun.spawn(
    [requireBinary(), "serve", "--provider", "docker", "--state-dir", state, "--model", "m1"],
    {
      cwd: place.root,
      env: {
        PATH: place.environment["PATH"] ?? "",
        HOME: place.environment["HOME"] ?? "",
        DOCKER_SOCKET: podman.socket,
        DOCKER_NETWORK: "host",
        SANDBOX_IMAGE: IMAGE,
        OPENAI_BASE_URL: model.url,
        OPENAI_API_KEY: model.apiKey,
        SANDPIPER_LOCAL_MODELS: "none",
      },
      stdout: Bun.file(out),
      stderr: Bun.file(errors),
    },
  )
  const address = () => /Session agent: (\S+)/.exec(printed())?.[1]
  await until(() => {
    if (child.exitCode !== null) throw new Error(`serve has ended: ${printed()}`)
    return address() !== undefined
  }, "serve prints its address")
  return {
    url: address() ?? "",
    token: readFileSync(join(state, "fleet", "operator-token"), "utf8").trim(),
    end: async (signal) => {
      child.kill(signal)
      await child.exited
    },
  }
}

beforeAll(async () => {
  podman = await startPodman()
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  await podman.image({
    name: IMAGE,
    programs: [
      "bash",
      "cat",
      "chmod",
      "chown",
      "env",
      "git",
      "id",
      "ls",
      "mkdir",
      "rm",
      "sh",
      "sleep",
    ],
    files: {
      "/usr/local/bin/sandpiper": requireBinary(),
      "/usr/local/bin/opencode": String(place.environment["OPENCODE_BIN"]),
      "/opencode-config": join(repositoryRoot, "opencode-config"),
    },
    startScript: readFileSync(join(repositoryRoot, "start.sh"), "utf8"),
  })
  server = await startServe()
}, 240_000)
afterAll(async () => {
  await server?.end("SIGTERM")
  await podman?.stop()
  await model?.stop()
  await place?.remove()
})

const call = async (path: string, body?: object) => {
  const response = await fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.token}` },
    ...(body && { body: JSON.stringify(body) }),
  })
  return (await response.json()) as Record<string, unknown>
}

/** Sends a prompt to the thread and resolves with its session and the agent's answer. */
const say = async (messageId: string, message: string) => {
  const { sessionId } = await call("/api/threads/C1:1/prompt", { message, messageId })
  const session = String(sessionId)
  const client: TestClient = await connectClient(server.url, server.token, { session })
  const isAnswer = ({ role, promptId, status }: ReturnType<TestClient["messages"]>[number]) =>
    role === "assistant" && promptId === messageId && status !== "streaming"
  try {
    await client.until(() => client.messages().some(isAnswer), "the answer", ANSWER_MS)
    return { session, answer: client.answerTo(messageId) }
  } catch (error) {
    throw new Error(`${messageId} has no answer: ${JSON.stringify(client.messages())}`, {
      cause: error,
    })
  } finally {
    client.close()
  }
}
/** What the model was shown after its last tool. */
const shown = (): string => JSON.stringify(model.requests.at(-1)?.messages.at(-1) ?? "")
const bash = (command: string) => tool("bash", { command, description: "try" })
const containers = (): readonly string[] =>
  podman.run("ps", "--all", "--format", "{{.State}}").trim().split("\n").filter(Boolean)

test("a thread is answered from a container, which sleeps, wakes, outlives a killed serve, is saved as an image, restored with its files and ended", async () => {
  model.on("first", [
    bash("id -un; echo kept > work.txt; echo layer > /tmp/other.txt"),
    text("Written."),
  ])
  const { session, answer } = await say("p1", "@@first@@")
  expect(answer).toBe("Written.")
  expect(shown()).toContain("agent")
  const [name = ""] = podman.run("ps", "--format", "{{.Names}}").trim().split("\n")
  expect(podman.run("exec", name, "cat", "/workspace/work.txt")).toBe("kept\n")

  expect(await call(`/api/sandbox/${session}/pause?wait=1`)).toMatchObject({ status: "paused" })
  expect(containers().map((state) => state.toLowerCase())).toEqual(["paused"])
  model.on("second", [text("Awake.")])
  expect((await say("p2", "@@second@@")).answer).toBe("Awake.")
  expect(podman.run("ps", "--format", "{{.Names}}").trim()).toBe(name)

  await server.end("SIGKILL")
  server = await startServe()
  model.on("third", [bash("cat work.txt"), text("Still here.")])
  expect((await say("p3", "@@third@@")).answer).toBe("Still here.")
  expect(shown()).toContain("kept")
  expect(podman.run("ps", "--format", "{{.Names}}").trim()).toBe(name)

  const asleep = await call(`/api/sandbox/${session}/hibernate?wait=1`)
  expect(asleep).toMatchObject({ status: "paused", providerSandboxId: null })
  expect(containers()).toEqual([])
  model.on("fourth", [bash("cat work.txt /tmp/other.txt"), text("Restored.")])
  expect((await say("p4", "@@fourth@@")).answer).toBe("Restored.")
  // The workspace is a volume; the other file is part of the image.
  expect(shown()).toContain("kept\\nlayer")
  expect(podman.run("ps", "--format", "{{.Image}}")).toContain("sandpiper-snapshot")

  await call(`/api/sandbox/${session}/terminate?wait=1`)
  expect(containers()).toEqual([])
  // The workspace stays for some days after the end; the volume with the environment does not.
  expect(podman.run("volume", "ls", "--quiet").trim()).toBe(`workspace-${session}`)
}, 500_000)
