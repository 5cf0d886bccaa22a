/** The compiled binary with sandboxes in a cloud: `serve` creates them at a double of the cloud and ends them there. */
import { afterAll, describe, expect, test } from "bun:test"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Cloud, CLOUD_IMAGE } from "../fleet/kit/cloud.ts"
import { DAYTONA_KEY, startDaytonaDouble } from "../fleet/kit/daytona-double.ts"
import { E2B_KEY, startE2bDouble } from "../fleet/kit/e2b-double.ts"
import { MODAL_TOKEN_ID, MODAL_TOKEN_SECRET, startModalDouble } from "../fleet/kit/modal-double.ts"
import { requireBinary } from "../kit/runner.ts"
import { untilFound, untilTrue } from "../kit/until-true.ts"

const binary = requireBinary()
const root = mkdtempSync(join(tmpdir(), "serve-clouds-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

interface Stage {
  readonly cloud: Cloud
  readonly environment: Readonly<Record<string, string>>
  readonly secret: string
  readonly stop: () => Promise<void>
}

const stages: Readonly<Record<string, () => Promise<Stage>>> = {
  modal: async () => {
    const double = await startModalDouble()
    const environment = {
      MODAL_SERVER_URL: double.url,
      MODAL_TOKEN_ID,
      MODAL_TOKEN_SECRET,
    }
    return { ...double, environment, secret: MODAL_TOKEN_SECRET }
  },
  e2b: async () => {
    const double = await startE2bDouble()
    const { url } = double
    const environment = { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: E2B_KEY }
    return { ...double, environment, secret: E2B_KEY }
  },
  daytona: async () => {
    const double = await startDaytonaDouble()
    const environment = { DAYTONA_API_URL: double.apiUrl, DAYTONA_API_KEY: DAYTONA_KEY }
    return { ...double, environment, secret: DAYTONA_KEY }
  },
}

const serve = (name: string, environment: Readonly<Record<string, string>>) => {
  const state = join(root, name)
  const files = [`${name}.out`, `${name}.err`].map((file) => join(root, file))
  for (const file of files) rmSync(file, { force: true })
  const child = Bun.spawn([binary, "serve", "--provider", name, "--state-dir", state], {
    cwd: root,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: root,
      SANDBOX_HUB_URL: "wss://hub.example.com",
      SANDBOX_IMAGE: CLOUD_IMAGE,
      LOG_LEVEL: "debug",
      APPROVE_ACTIONS: "create-pull-request",
      SESSION_KIND: "setup",
      ...environment,
    },
    stdout: Bun.file(join(root, `${name}.out`)),
    stderr: Bun.file(join(root, `${name}.err`)),
  })
  const output = () =>
    files.map((file) => (existsSync(file) ? readFileSync(file, "utf8") : "")).join("")
  const token = () => readFileSync(join(state, "fleet", "operator-token"), "utf8").trim()
  return { child, output, token }
}

test("an unknown action in APPROVE_ACTIONS stops serve, which names it", async () => {
  const { child, output } = serve("noop", { APPROVE_ACTIONS: "create-pull-request,fly" })
  try {
    await untilTrue(() => child.exitCode !== null, "end of serve")
    expect(child.exitCode).toBe(2)
    expect(output()).toContain("APPROVE_ACTIONS: there is no action fly;")
  } finally {
    child.kill("SIGTERM")
    await child.exited
  }
})

test("serve says at its start which chat service is off and what it lacks, and that HUB_URL leaves chats to the hub", async () => {
  const slack = { SLACK_SIGNING_SECRET: "sign-for-tests", SLACK_BOT_TOKEN: "xoxb-for-tests" }
  const startsOf = async (environment: Readonly<Record<string, string>>, sign: string) => {
    const { child, output } = serve("noop", environment)
    try {
      await untilTrue(() => output().includes(sign) || child.exitCode !== null, "start of serve")
      return output()
    } finally {
      child.kill("SIGTERM")
      await child.exited
    }
  }
  const withoutSession = await startsOf(slack, "Session agent: ")
  expect(withoutSession).toContain("/channels/slack is off: set SLACK_SESSION\n")
  const complete = await startsOf({ ...slack, SLACK_SESSION: "s1" }, "Session agent: ")
  expect(complete).not.toContain("/channels/slack is off")
  const elsewhere = await startsOf(
    {
      ...slack,
      HUB_URL: "http://127.0.0.1:1",
      FLEET_KEY: "a key of the fleet for these tests only",
    },
    "Fleet: ",
  )
  expect(elsewhere).toContain(
    "No effect in `serve` with HUB_URL, because the hub talks to chats: SLACK_SIGNING_SECRET, SLACK_BOT_TOKEN\n",
  )
  expect(elsewhere + withoutSession).not.toMatch(/sign-for-tests|xoxb-for-tests/)
})

test("the token of OPERATOR_TOKEN_FILE is the operator's", async () => {
  const file = join(root, "token")
  const token = "a-token-of-the-operator-for-tests"
  writeFileSync(file, `${token}\n`)
  const { child, output } = serve("noop", { OPERATOR_TOKEN_FILE: file })
  try {
    const url = await untilFound(() => {
      if (child.exitCode !== null) throw new Error(`serve has ended: ${output()}`)
      return /Session agent: (\S+)/.exec(output())?.[1]
    }, "address of the hub")
    const statusWith = async (given: string) => {
      const headers = { authorization: `Bearer ${given}` }
      return (await fetch(`${url}/api/sandboxes`, { headers })).status
    }
    expect(await statusWith(token)).toBe(200)
    expect(await statusWith(`${token}s`)).toBe(401)
    await untilTrue(() => output().includes(`token is in ${file}`), "place of the token")
    expect(output()).not.toContain(token)
  } finally {
    child.kill("SIGTERM")
    await child.exited
  }
})

describe("serve with sandboxes in a cloud", () => {
  for (const [name, start] of Object.entries(stages))
    test(`a prompt creates a sandbox at ${name} that knows the hub and no key of ${name}, and a terminate ends it`, async () => {
      const stage = await start()
      const { child, output, token } = serve(name, stage.environment)
      try {
        const url = await untilFound(() => {
          if (child.exitCode !== null) throw new Error(`serve has ended: ${output()}`)
          return /Session agent: (\S+)/.exec(output())?.[1]
        }, "address of the hub")
        const call = (method: string, path: string, body?: unknown) =>
          fetch(`${url}${path}`, {
            method,
            headers: { authorization: `Bearer ${token()}` },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          })
        await call("POST", "/api/threads/C1:1/prompt", { message: "hello" })
        const box = await untilFound(() => [...stage.cloud.boxes.values()][0], "sandbox")
        const link = new URL(box.environment["DO_WS_URL"] ?? "")
        expect(link.host).toBe("hub.example.com")
        expect(box.environment["RUNNER_TOKEN"]).toBeString()
        expect(JSON.stringify(box.environment)).not.toContain(stage.secret)
        // A setting for all agents, and one of a single session, which is named instead.
        expect(box.environment["APPROVE_ACTIONS"]).toBe("create-pull-request")
        expect(box.environment["SESSION_KIND"]).toBeUndefined()
        expect(output()).toMatch(/No effect in `serve`.*SESSION_KIND/)
        const session = box.environment["SESSION_ID"] ?? ""
        const refOf = async () => {
          const answer = await call("GET", `/api/sandbox/${session}/status`)
          const text = await answer.text()
          return text.includes(box.id) ? box.id : undefined
        }
        expect(await untilFound(refOf, "sandbox in the status")).toBe(box.id)
        await call("POST", `/api/sandbox/${session}/terminate?wait=1`)
        const isOver = () => (stage.cloud.boxes.get(box.id)?.state ?? "stopped") === "stopped"
        await untilTrue(isOver, "end of the sandbox")
        expect(output()).toContain("provider.create.ok")
        expect(output()).not.toContain(stage.secret)
      } finally {
        child.kill("SIGTERM")
        await child.exited
        await stage.stop()
      }
    })
})
