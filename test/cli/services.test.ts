/** `sandpiper services`, `env` and `actions` as processes. Each test has a real gateway with real services of its own. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { API_TOKEN, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { createTestServices, type TestServices } from "../runner/sandbox/services/kit.ts"
import { freePort } from "../kit/free-port.ts"
import { refusedCall } from "../kit/refused-call.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { runnerFromSource } from "../kit/runner.ts"

let kit: TestServices
let gateway: TestGateway
beforeEach(() => {
  kit = createTestServices()
  gateway = startTestGateway({ services: kit.ports })
})
afterEach(async () => {
  await gateway.stop()
  await kit.end()
})

const run = (args: readonly string[], env: Record<string, string> = {}) =>
  runToEnd([...runnerFromSource, ...args], {
    cwd: kit.root,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: kit.root,
      SANDPIPER_URL: gateway.url,
      SANDPIPER_API_TOKEN: API_TOKEN,
      ...env,
    },
  })

test("services are started, listed as a table and as JSON, logged, restarted, exposed and stopped", async () => {
  expect((await run(["services", "list"])).out).toContain("There are no services.")
  const started = await run(["services", "start", "a", "--", "echo", "hello;", "exec sleep 1000"])
  expect(started).toMatchObject({ code: 0, err: "" })
  expect(started.out).toStartWith("a is started.")
  const table = (await run(["services", "list"])).out
  expect(table).toMatch(
    /^NAME +STATUS +PID +PORTS +COMMAND\na +running +\d+ +- +echo hello; exec sleep 1000\n$/,
  )
  const { services } = JSON.parse((await run(["services", "list", "--json"])).out)
  expect(services).toMatchObject([{ name: "a", status: "running" }])
  expect((await run(["services", "logs", "a"])).out).toBe("hello\n")
  expect((await run(["services", "restart", "a"])).out).toBe("a is restarted.\n")
  expect((await run(["services", "expose", "4100"])).out).toContain("/t/preview/")
  expect((await run(["services", "stop", "a"])).out).toBe("a is stopped.\n")
  expect(kit.services.find("a")?.status).toBe("stopped")
})

test("env files are applied from a file and scrubbed", async () => {
  const spec = join(kit.root, "env.json")
  await writeFile(spec, JSON.stringify({ files: [{ path: ".env", variables: { A: "1" } }] }))
  expect(await run(["env", "apply", spec])).toMatchObject({ code: 0, out: "Written: .env\n" })
  expect(await Bun.file(join(kit.root, ".env")).text()).toBe("A=1\n")
  expect(await run(["env", "scrub", "--json"])).toMatchObject({
    code: 0,
    out: '{"removed":[".env"]}\n',
  })
})

test("actions are listed, and one is run with its input", async () => {
  expect((await run(["actions", "list"])).out).toContain("start-service")
  const input = JSON.stringify({ name: "b", command: "true" })
  const started = await run(["actions", "run", "start-service", input, "--json"])
  expect(JSON.parse(started.out)).toMatchObject({ service: { name: "b" } })
  const stopped = await run(["actions", "run", "stop-service", '{"name":"b"}', "--json"])
  expect(stopped).toMatchObject({ code: 0, out: '{"ok":true}\n' })
})

test("a mistake in the command line exits with 2 and a sentence, a refusal with 1", async () => {
  for (const [args, sentence] of [
    [["services", "start", "a"], "services start needs a NAME and, after --, a COMMAND"],
    [["services", "stop"], "services stop needs a NAME"],
    [["services", "expose", "x"], '"x" is not a port'],
    [["services", "paint"], "services needs one of: list, start"],
    [["env", "apply"], "env apply needs a FILE"],
    [["env", "apply", "none.json"], "none.json cannot be read"],
    [["actions", "run", "fly"], 'there is no action "fly"'],
    [["actions", "run", "stop-service"], 'the input of this action needs "name"'],
  ] as const) {
    const { code, err } = await run(args)
    expect(err).toContain(sentence)
    expect(code).toBe(2)
  }
  const refused = await run(["services", "stop", "none"])
  expect(refused.err).toContain("there is no service none")
  expect(refused.code).toBe(1)
  const outside = await run(["services", "list"], { SANDPIPER_API_TOKEN: "" })
  expect(outside.code).not.toBe(0)
})

test("a command waits for a gateway that is still starting", async () => {
  const port = freePort()
  const refused = refusedCall(kit.root)
  const url = `http://127.0.0.1:${port}`
  const waiting = run(["services", "list"], { SANDPIPER_URL: url, ...refused.env })
  await refused.happened()
  const late = startTestGateway({ services: kit.ports, port })
  try {
    expect((await waiting).code).toBe(0)
  } finally {
    await late.stop()
  }
})

test("a command whose connection is cut is not sent again, because the runner may have carried it out", async () => {
  let requests = 0
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data: (socket) => {
        requests += 1
        socket.terminate()
      },
    },
  })
  const cut = await run(["services", "start", "twice", "--", "true"], {
    SANDPIPER_URL: `http://127.0.0.1:${server.port}`,
  })
  expect(cut.code).toBe(1)
  expect(cut.err).toContain("was lost")
  expect(requests).toBe(1)
  server.stop(true)
})
