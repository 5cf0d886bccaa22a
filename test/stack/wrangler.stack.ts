/** The commands of docs/durable-object.md: `wrangler dev` as the hub, the compiled runner, a prompt, a restart of the hub. */
import { afterAll, expect, test } from "bun:test"
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { connectClient } from "../hub/kit/client.ts"
import { hubAnswers, isConnected, startBinaryRunner } from "../kit/binary-runner.ts"
import { startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, repositoryRoot } from "../kit/runner.ts"
import { node24, wrangler } from "./places.ts"
import { freePort } from "../kit/free-port.ts"

const CLIENT_TOKEN = "a client token of the tests"
const RUNNER_TOKEN = "a runner token of the tests"
const SESSION = "s1"

const cleanups: (() => unknown)[] = []
afterAll(async () => {
  for (const clean of cleanups.toReversed()) await clean()
})

/** A directory like a clone of the project, where wrangler may write. */
const project = async (): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "wrangler-"))
  cleanups.push(() => rm(folder, { recursive: true, force: true }))
  for (const name of ["src", "node_modules", "dist"]) {
    await symlink(join(repositoryRoot, name), join(folder, name))
  }
  for (const name of ["wrangler.jsonc", "package.json", "tsconfig.json"]) {
    await copyFile(join(repositoryRoot, name), join(folder, name))
  }
  await mkdir(join(folder, "home"))
  await writeFile(join(folder, ".dev.vars"), `CLIENT_TOKEN=${CLIENT_TOKEN}\n`, { mode: 0o600 })
  return folder
}

const startWrangler = (folder: string, port: number) => {
  const child = Bun.spawn(
    [join(node24.home, "bin/node"), wrangler.program, "dev", "--port", String(port)],
    {
      cwd: folder,
      env: {
        PATH: `${join(node24.home, "bin")}:${process.env["PATH"]}`,
        HOME: join(folder, "home"),
        CI: "1",
        WRANGLER_SEND_METRICS: "false",
        // Otherwise wrangler asks Cloudflare for the location of this machine.
        CLOUDFLARE_CF_FETCH_ENABLED: "false",
      },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    },
  )
  return async () => {
    child.kill()
    await child.exited
  }
}

test("a runner joins `wrangler dev` over ws://, answers a prompt, and is back after a restart of wrangler", async () => {
  const model = await startScriptedModel()
  cleanups.push(model.stop)
  model.on("first", [text("Before.")])
  model.on("second", [text("After.")])
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  cleanups.push(sandbox.remove)
  const folder = await project()
  const port = freePort()
  const hub = { url: `http://127.0.0.1:${port}`, clientToken: CLIENT_TOKEN, session: SESSION }
  let stop = startWrangler(folder, port)
  cleanups.push(() => stop())
  await hubAnswers(hub)

  const created = await fetch(`${hub.url}/sessions/${SESSION}`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify({ runnerToken: RUNNER_TOKEN, title: "First" }),
  })
  expect(created.status).toBe(201)
  const runner = startBinaryRunner(sandbox, {
    DO_WS_URL: `ws://127.0.0.1:${port}/sessions/${SESSION}/ws`,
    SESSION_ID: SESSION,
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: model.apiKey,
    SANDPIPER_MODEL: "m1",
  })
  cleanups.push(runner.stop)
  await isConnected(runner, 1, hub)
  const answer = async (content: string) => {
    const client = await connectClient(hub.url, CLIENT_TOKEN, { session: SESSION })
    const clientRequestId = crypto.randomUUID()
    const { messageId } = await client.ask({ type: "prompt", content, clientRequestId })
    await client.until(() => client.answerTo(String(messageId)) !== "", "answer")
    client.close()
    return client.answerTo(String(messageId))
  }
  expect(await answer("@@first@@")).toBe("Before.")

  await stop()
  stop = startWrangler(folder, port)
  await hubAnswers(hub)
  const from = performance.now()
  await isConnected(runner, 2, hub)
  const backMs = Math.round(performance.now() - from)
  process.stdout.write(`the runner is back ${backMs} ms after wrangler\n`)
  expect(backMs).toBeLessThan(10_000)
  expect(Math.max(...runner.waits())).toBeLessThanOrEqual(1000)
  expect(await answer("@@second@@")).toBe("After.")
})
