/**
 * The limit of the disk of isolated sandboxes, with hub, fleet, the real OpenCode and the scripted model: what writes too much is stopped,
 * the person and the agent learn why, and both go on when there is room again. Both sessions and the sandboxes are shared by the tests.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { loopbackPorts } from "../../src/fleet/providers/local-isolated.ts"
import { probeMachine } from "../../src/fleet/providers/local-machine.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { lastUserText } from "../../src/demo/request.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

const MIB = 1024 * 1024
const LIMIT = 400 * MIB
const FILES = 30_000
const repository = join(import.meta.dir, "../..")
let model: ScriptedModel
let place: Sandbox
let stack: ServeStack
let store: ReturnType<typeof openSqliteStore>
let greedy: Person
let other: Person

interface Person {
  readonly session: string
  readonly client: TestClient
  readonly say: (messageId: string, message: string) => Promise<string>
}

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  const root = join(place.root, "fleet")
  const { isolation } = await probeMachine(join(root, "probe"))
  if (!isolation) throw new Error("this machine has no isolation")
  store = openSqliteStore(join(place.root, "fleet.db"))
  stack = await startServe(place, model, {
    provider: createLocalProvider({
      root,
      self: runnerFromSource,
      clock: systemClock,
      isolated: {
        isolation,
        programs: [repository],
        variables: { OPENCODE_BIN: place.environment["OPENCODE_BIN"] ?? "" },
        hostPorts: () => loopbackPorts([model.url]),
      },
    }),
    store,
    diskLimit: { bytes: LIMIT, inodes: FILES },
  })
  greedy = await start("T1")
  other = await start("T2")
})
afterAll(async () => {
  greedy?.client.close()
  other?.client.close()
  await endSandboxes(stack, store)
  await stack.stop()
  await model.stop()
  await place.remove()
})

const call = async (path: string, body?: object) => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    ...(body && { method: "POST", body: JSON.stringify(body) }),
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}
const prompt = (thread: string, messageId: string, message: string) =>
  call(`/api/threads/${thread}/prompt`, { message, messageId })

const start = async (thread: string): Promise<Person> => {
  model.on(`hello ${thread}`, [text("Here.")])
  const { body } = await prompt(thread, `first-${thread}`, `@@hello ${thread}@@`)
  const session = String(body["sessionId"])
  const client = await connectClient(stack.hub.url, CLIENT_TOKEN, { session })
  const answer = async (messageId: string) => {
    const answered = () =>
      client
        .messages()
        .some(
          ({ role, promptId, status }) =>
            role === "assistant" && promptId === messageId && status !== "streaming",
        )
    await client.until(answered, `the answer to ${messageId}`, 100_000)
    return client.answerTo(messageId)
  }
  await answer(`first-${thread}`)
  return {
    session,
    client,
    say: async (messageId, message) => {
      expect((await prompt(thread, messageId, message)).status).toBe(200)
      return answer(messageId)
    },
  }
}
const bash = (command: string) => tool("bash", { command, description: "try", timeout: 100_000 })
/** The output of the last tool of this prompt, as the model was given it. */
const shown = (script: string): string =>
  JSON.stringify(
    model.requests
      .findLast((request) => lastUserText(request).includes(`@@${script}@@`))
      ?.messages.at(-1) ?? "",
  )
const notes = ({ client }: Person): readonly string[] =>
  client
    .messages()
    .filter(({ role }) => role === "system")
    .flatMap(({ parts }) => parts.map((part) => part.text ?? ""))
const untilNote = ({ client }: Person, part: string) =>
  client.until(() => notes({ client } as Person).some((note) => note.includes(part)), part, 60_000)
const diskOf = async ({ session }: Person) =>
  (await call(`/api/sandbox/${session}/status`)).body["disk"] as Record<string, unknown>

const isLevel = (person: Person, state: string) =>
  untilTrue(async () => (await diskOf(person))?.["state"] === state, `a disk that is ${state}`)

test("a command that writes without end is ended at the limit, the agent reads why and goes on, and no other session notices", async () => {
  model.on("fill", [bash("cat /dev/zero > /tmp/zeros; echo not-reached"), text("It was ended.")])
  model.on("meanwhile", [bash("echo not-hurt"), text("Fine.")])
  const filling = greedy.say("p1", "@@fill@@")
  expect(await other.say("q1", "@@meanwhile@@")).toBe("Fine.")
  expect(await filling).toBe("It was ended.")
  expect(shown("fill")).toContain("The disk of this sandbox is full")
  expect(shown("fill")).not.toContain("not-reached")
  await untilNote(greedy, "The disk of this sandbox is full")
  expect(notes(greedy).join()).toContain("no file was deleted")
  expect(notes(other)).toEqual([])
  expect(await diskOf(greedy)).toMatchObject({ state: "full", limitBytes: LIMIT })
  expect(await diskOf(other)).toMatchObject({ state: "ok" })
})

test("when files are deleted, the agent and the person read that there is room, and commands write again", async () => {
  model.on("tidy", [bash("rm /tmp/zeros"), text("Deleted.")])
  expect(await greedy.say("p2", "@@tidy@@")).toBe("Deleted.")
  await untilNote(greedy, "has room again")
  expect(await diskOf(greedy)).toMatchObject({ state: "ok" })
  model.on("again", [bash("head -c 50M /dev/zero > /workspace/fifty && echo written"), text("Ok.")])
  expect(await greedy.say("p3", "@@again@@")).toBe("Ok.")
  expect(shown("again")).toContain("written")
  expect(shown("again")).not.toContain("sandbox_disk")
})

test("a file that was deleted and is still open counts, and its space is free when its process was ended", async () => {
  const script = `
import os
file = open("/workspace/hidden", "wb")
os.unlink("/workspace/hidden")
while True:
    file.write(bytes(1 << 20))
`
  model.on("hide", [bash(`python3 -c '${script}'`), text("Ended, too.")])
  const notesBefore = notes(greedy).length
  expect(await greedy.say("p4", "@@hide@@")).toBe("Ended, too.")
  expect(shown("hide")).toContain("Killed")
  await isLevel(greedy, "ok")
  await greedy.client.until(
    () => notes(greedy).length === notesBefore + 2,
    "the notes that it was full and has room",
    60_000,
  )
})

test("a process in the background that makes files without end is ended at the number of files", async () => {
  const script = `
import os
os.makedirs("/tmp/many")
at = 0
while True:
    open("/tmp/many/%d" % at, "w").close()
    at += 1
`
  model.on("many", [
    bash(`setsid -f python3 -c '${script}' >/dev/null 2>&1 </dev/null; echo begun`),
    text("Begun."),
  ])
  expect(await greedy.say("p5", "@@many@@")).toBe("Begun.")
  await isLevel(greedy, "full")
  expect(Number((await diskOf(greedy))["usedFiles"])).toBeGreaterThanOrEqual(FILES)
  model.on("count", [bash("pgrep -c -r R,S,D python3; rm -r /tmp/many"), text("Removed.")])
  expect(await greedy.say("p6", "@@count@@")).toBe("Removed.")
  expect(shown("count")).toContain('"content":"0\\n')
  await isLevel(greedy, "ok")
})

test("space that is not written cannot be taken, and a sparse file counts as what it has", async () => {
  const script = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
file = os.open("/tmp/taken", os.O_CREAT | os.O_RDWR)
libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(20 << 30))
print("fallocate", os.strerror(ctypes.get_errno()), os.fstat(file).st_blocks)
libc.syscall(425, 8, ctypes.create_string_buffer(120))
print("io_uring", os.strerror(ctypes.get_errno()))
os.posix_fallocate(file, 0, 1 << 20)
print("posix_fallocate", os.fstat(file).st_blocks)
os.truncate("/tmp/taken", 20 << 30)
`
  model.on("take", [bash(`python3 -c '${script}'; echo $?`), text("Taken.")])
  expect(await greedy.say("p7", "@@take@@")).toBe("Taken.")
  expect(shown("take")).toContain(
    "fallocate Operation not supported 0\\nio_uring Function not implemented\\nposix_fallocate 2048\\n0\\n",
  )
  expect(await diskOf(greedy)).toMatchObject({ state: "ok" })
})

test("an agent that goes on writing into a full disk is ended and sleeps, and the next prompt wakes it to tidy up", async () => {
  model.on("more", [
    bash("cat /dev/zero > /tmp/one"),
    bash("cat /dev/zero > /tmp/two"),
    text("Not said."),
  ])
  await prompt("T1", "p8", "@@more@@")
  await untilNote(greedy, "More was written although")
  const status = async () => (await call(`/api/sandbox/${greedy.session}/status`)).body["status"]
  await untilTrue(async () => (await status()) === "paused", "sleep of the sandbox")
  model.on("beside", [text("Not hurt.")])
  expect(await other.say("q2", "@@beside@@")).toBe("Not hurt.")
  model.on("wake", [bash("ls /tmp/one /tmp/two; rm /tmp/one /tmp/two"), text("Tidied up.")])
  expect(await greedy.say("p9", "@@wake@@")).toBe("Tidied up.")
  // Nothing was lost.
  expect(shown("wake")).toContain("/tmp/one\\n/tmp/two")
  await isLevel(greedy, "ok")
})
