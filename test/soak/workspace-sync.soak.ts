/** A session moves to another sandbox: its files come from object storage before the first prompt of the new one. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { LocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { signControlToken } from "../../src/lib/control-token.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startHubBeside } from "../hub/kit/local-hub.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, type Sandbox, startRunner } from "../kit/runner.ts"
import { type S3Server, startS3Server } from "../kit/s3-server.ts"
import { untilTrue } from "../kit/until-true.ts"

const SESSION = "test-session"

let s3: S3Server
let model: ScriptedModel
let place: Sandbox
let hub: LocalHub
let client: TestClient
beforeAll(async () => {
  s3 = startS3Server()
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  hub = await startHubBeside(place, SESSION, model, {
    environment: {
      ...place.environment,
      S3_ENDPOINT: s3.endpoint,
      S3_REGION: s3.region,
      S3_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      S3_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
    },
  })
  client = await connectClient(hub.url, CLIENT_TOKEN, { session: SESSION })
})
afterAll(async () => {
  client.close()
  await hub.stop()
  await place.remove()
  await model.stop()
  await s3.stop()
})

/** A new sandbox of the session, with nothing in its workspace and its state directory. */
const startSandbox = () =>
  startRunner({ url: hub.runnerUrl(SESSION), token: RUNNER_TOKEN }, { WORKSPACE_SYNC: "1" })

const ask = async (name: string, command: string): Promise<string> => {
  model.on(name, [tool("bash", { command, description: name }), text(`${name} is done`)])
  const { messageId } = await client.ask({ type: "prompt", content: `@@${name}@@` })
  const answer = () => client.answerTo(String(messageId))
  await client.until(() => answer() === `${name} is done`, `the answer to ${name}`)
  const outputs = client
    .messages()
    .filter(({ promptId }) => promptId === messageId)
    .flatMap(({ parts }) => parts.map(({ data }) => JSON.stringify(data ?? {})))
  return outputs.join("\n")
}

test("the files of a session are in its next sandbox before the first prompt, and no key is in a sandbox", async () => {
  const first = await startSandbox()
  await ask("write", "mkdir -p notes && echo 'seen by the next sandbox' > notes/heron.txt")
  const environment = await ask("print", "env")
  expect(environment).not.toContain("S3_")
  expect(environment).not.toContain(s3.credentials.secretAccessKey)
  // The runner saves what has changed before it ends.
  await first.stop()
  expect([...s3.objects.keys()].some((key) => key.endsWith("/manifest.json"))).toBe(true)
  const second = await startSandbox()
  try {
    expect(second.sandbox.workDir).not.toBe(first.sandbox.workDir)
    expect(await ask("read", "cat notes/heron.txt")).toContain("seen by the next sandbox")
    const log = [...first.log, ...second.log].join("\n")
    expect(log).not.toContain("X-Amz-Signature")
    expect(await Bun.file(join(second.sandbox.workDir, "notes/heron.txt")).exists()).toBe(true)
  } finally {
    await second.stop()
  }
}, 120_000)

test("files that programs wrote in subfolders after the last turn are saved before the runner ends", async () => {
  const runner = await startSandbox()
  const call = async (path: string, body: object) => {
    const key = runner.sandbox.environment["JWT_SECRET"] ?? ""
    const jti = crypto.randomUUID()
    const token = await signControlToken({ key, sessionId: SESSION, jti, now: Date.now() })
    const response = await fetch(`${runner.gatewayUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(200)
  }
  // A background program, as a service: no request ends when it writes.
  const command =
    "mkdir -p marsh/reeds; touch marsh/begun; while ! test -e marsh/go; do sleep 0.1; done; echo late > marsh/reeds/late.txt"
  await call("/v1/processes", { command: "sh", args: ["-c", command] })
  await ask("quiet", "true")
  await untilTrue(() => existsSync(join(runner.sandbox.workDir, "marsh/begun")), "the program")
  // Everything that was reported until now is saved.
  await call("/api/workspace/save", {})
  writeFileSync(join(runner.sandbox.workDir, "marsh/go"), "")
  const late = join(runner.sandbox.workDir, "marsh/reeds/late.txt")
  await untilTrue(() => existsSync(late), "the late file")
  await runner.stop()
  const manifest = [...s3.objects].find(([key]) => key.endsWith("/manifest.json"))?.[1]
  expect(new TextDecoder().decode(manifest)).toContain("marsh/reeds/late.txt")
}, 120_000)
