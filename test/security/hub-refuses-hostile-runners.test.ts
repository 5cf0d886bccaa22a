/** A hostile runner with a valid token: what it must not be able to do to the hub, its files and its approvals. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { execa } from "execa"
import { hashOf } from "../../src/hub/keys.ts"
import { parseOutbound } from "../../src/wire/frames/index.ts"
import type { RequestFields, RequestType } from "../../src/wire/frames/index.ts"
import { connectClient } from "../hub/kit/client.ts"
import { createCore } from "../hub/kit/core.ts"
import { startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startTestLocalHub, type TestLocalHub } from "../hub/kit/local-hub.ts"
import { untilTrue } from "../kit/until-true.ts"
import { startStopwatch } from "../kit/stopwatch.ts"

let setup: TestLocalHub
beforeAll(async () => {
  setup = await startTestLocalHub()
})
afterAll(() => setup.stop())

const request = <Type extends RequestType>(type: Type, fields: RequestFields<Type>) =>
  setup.runner.uplink.request(type, fields)

const refusalOf = async (pending: Promise<unknown>): Promise<string> => {
  const outcome = await pending.then(
    () => undefined,
    (error: unknown) => String(error),
  )
  if (outcome === undefined) throw new Error("the request was not refused")
  return outcome
}

describe("files of the hub", () => {
  test("a request id that is a path is refused before any handler sees it", () => {
    for (const requestId of ["../../../../x", "a/b", "", "a".repeat(65), "..", "a\u0000b"]) {
      const frame = { type: "channel-reply", requestId, channelType: "web", channelId: "d" }
      const parsed = parseOutbound(JSON.stringify({ ...frame, message: "m", imageBase64: "aGk=" }))
      expect(parsed.ok).toBe(false)
    }
  })

  test("the blob of a note has an id of the hub's own and not the id of the note", () => {
    const core = createCore()
    const image = { base64: "aGk=", mime: "image/png" }
    for (const id of ["reply-../../../../x", "reply-a", "reply-a"])
      core.session.note({ id, role: "assistant", content: "c", image })
    expect([...core.blobs.keys()]).toHaveLength(2)
    for (const id of core.blobs.keys()) expect(id).toMatch(/^[\da-f]{64}$/)
  })

  test("a runner that sends a path as its request id writes no file outside the blobs", async () => {
    setup.hub.create("hostile").setRunnerToken(await hashOf(RUNNER_TOKEN))
    const socket = new WebSocket(`${setup.hub.runnerUrl("hostile")}?role=runner`, {
      headers: { Authorization: `Bearer ${RUNNER_TOKEN}` },
    })
    await new Promise((resolve) => socket.addEventListener("open", resolve))
    const say = (frame: object) => socket.send(JSON.stringify(frame))
    const epoch = crypto.randomUUID()
    const runner = { name: "hostile", version: "0" }
    say({ type: "hello", protocol: 2, runner, sessionId: "hostile", epoch, nextSeq: 1, active: [] })
    const reply = { type: "channel-reply", channelType: "web", channelId: "default", message: "m" }
    const refused = new Promise<string>((resolve) => {
      socket.addEventListener("message", ({ data }) => {
        if (String(data).includes("escaped")) resolve(String(data))
      })
    })
    say({ ...reply, seq: 1, requestId: "first", imageBase64: "aGk=" })
    say({ ...reply, seq: 2, requestId: "/../../../../../escaped", imageBase64: "aGk=" })
    const blobs = join(setup.folder, "state/hub/blobs/hostile")
    await untilTrue(() => existsSync(blobs), "the blob of the first request")
    expect(await refused).toContain("malformed request: requestId")
    expect(readdirSync(blobs)).toHaveLength(1)
    expect(existsSync(join(setup.folder, "escaped"))).toBe(false)
    socket.close()
  })

  test.each(["file:///etc", "FILE:///etc/passwd", "/etc", "ext::sh -c id", "fd::17"])(
    "a child session cannot be spawned with the repository %s",
    async (repoUrl) => {
      const spawn = request("spawn-child", { task: "t", workspace: "w", repoUrl })
      expect(await refusalOf(spawn)).toContain("repoUrl: must be an https:// or ssh:// address")
    },
  )
})

describe("approvals", () => {
  const waiting = async (name: string, token: string): Promise<string> => {
    await request("workflow-sync", { name, data: { steps: [{ type: "approval", prompt: "ok?" }] } })
    const { execution } = await request("workflow-run", { workflowId: name })
    const executionId = String(execution["id"])
    const requiresApproval = { stepId: "s", prompt: "Deploy?", items: [], resumeToken: token }
    setup.runner.send({
      type: "workflow-execution-result",
      executionId,
      envelope: { ok: true, status: "needs_approval", executionId, requiresApproval },
    })
    await untilTrue(async () => {
      const got = await request("execution-api", { action: "get", payload: { executionId } })
      return JSON.stringify(got).includes("waiting_approval")
    }, "execution that waits")
    return executionId
  }
  const decisions = (executionId: string) =>
    setup.runner.frames.flatMap((frame) =>
      frame.type === "workflow-execute" &&
      frame.executionId === executionId &&
      frame.payload.kind === "resume"
        ? [frame.payload.decision]
        : [],
    )

  test("a runner sees that an execution waits, and never the token that continues it", async () => {
    const executionId = await waiting("gate-one", "the-secret-resume-token-1")
    const seen = [
      await request("execution-api", { action: "get", payload: { executionId } }),
      await request("workflow-executions", {}),
      await request("execution-api", { action: "steps", payload: { executionId } }),
    ]
    expect(JSON.stringify(seen)).toContain("Deploy?")
    expect(JSON.stringify(seen)).not.toContain("the-secret-resume-token-1")
  })

  test("a runner cannot approve an execution, even with the right token", async () => {
    const executionId = await waiting("gate-two", "token-2")
    const payload = { executionId, approve: true, resumeToken: "token-2" }
    const frame = { type: "execution-api", requestId: "approve-it", action: "approve", payload }
    setup.runner.send(frame as never)
    const { data } = await request("execution-api", { action: "get", payload: { executionId } })
    expect(data).toMatchObject({ execution: { status: "waiting_approval" } })
    expect(decisions(executionId)).toEqual([])
  })

  test("a client reads the question in the conversation and approves the execution once", async () => {
    const executionId = await waiting("gate-three", "token-3")
    const client = await connectClient(setup.hub.url, CLIENT_TOKEN)
    await client.until(
      () =>
        JSON.stringify(client.messages()).includes(
          `Deploy?\\nApprove or deny execution ${executionId}`,
        ),
      "the question",
    )
    const decide = (approve: boolean) =>
      client.ask({ type: "approve-execution", executionId, approve })
    expect(await decide(true)).toMatchObject({ ok: true, status: "running" })
    expect(await decide(false)).toMatchObject({ ok: false, error: { code: "too-late" } })
    await untilTrue(() => decisions(executionId).length > 0, "the runner's order")
    expect(decisions(executionId)).toEqual(["approve"])
    client.close()
  })

  test("a client of another session cannot decide about the execution", async () => {
    const executionId = await waiting("gate-four", "token-4")
    setup.hub.create("other")
    const client = await connectClient(setup.hub.url, CLIENT_TOKEN, { session: "other" })
    expect(
      await client.ask({ type: "approve-execution", executionId, approve: true }),
    ).toMatchObject({ ok: false, error: { code: "not-found" } })
    expect(decisions(executionId)).toEqual([])
    client.close()
  })

  test("a session cannot approve its own proposal, not even under another session's name", async () => {
    const { workflow } = await request("workflow-sync", {
      name: "owned",
      data: { steps: [{ type: "bash", command: "true" }] },
    })
    const { data } = await request("workflow-api", {
      action: "proposal-create",
      payload: {
        workflowId: "owned",
        baseWorkflowHash: workflow["workflowHash"],
        proposal: { steps: [{ type: "bash", command: "false" }] },
        proposedBySessionId: "somebody-else",
      },
    })
    const proposalId = (data as { proposal: { id: string } }).proposal.id
    const review = {
      action: "proposal-review" as const,
      payload: { workflowId: "owned", proposalId, approve: true },
    }
    expect(await refusalOf(request("workflow-api", review))).toContain("its own proposal")
    setup.hub.create("reviewer").setRunnerToken(await hashOf(RUNNER_TOKEN))
    const reviewer = startFakeRunner({
      url: setup.hub.runnerUrl("reviewer"),
      token: RUNNER_TOKEN,
      stateDir: join(setup.folder, "reviewer"),
    })
    expect(await reviewer.uplink.request("workflow-api", review)).toMatchObject({
      data: { success: true },
    })
    await reviewer.stop()
  })
})

describe("stalls", () => {
  const MAX_STALL_MS = 250

  test("a memory query of 32,000 words takes less than a quarter of a second", async () => {
    for (let index = 0; index < 200; index += 1)
      await request("memory-write", {
        content: `word${index} sea bird number ${index}`,
        category: "c",
      })
    const query = Array.from({ length: 32_000 }, (_, index) => `w${index}`).join(" ")
    const workedMs = startStopwatch()
    await request("memory-read", { query })
    expect(workedMs()).toBeLessThan(MAX_STALL_MS)
  })

  test.each([
    ["31 MB of opening brackets", "[".repeat(31_000_000)],
    ["31 MB of empty lists", `{"type":"x","a":[${"[],".repeat(10_000_000)}0]}`],
    ["31 MB of small numbers", `[${"0,".repeat(15_000_000)}0]`],
    ["31 MB of nested objects", '{"a":'.repeat(6_000_000)],
  ])("a frame of %s is refused in less than a quarter of a second", (_name, text) => {
    const workedMs = startStopwatch()
    expect(parseOutbound(text).ok).toBe(false)
    expect(workedMs()).toBeLessThan(MAX_STALL_MS)
  })
})

describe("names of the machine", () => {
  test.each([
    "127.evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example",
  ])("the hub refuses a request whose host is %s", async (host) => {
    const { port } = new URL(setup.hub.url)
    const { stdout } = await execa("curl", [
      "-s",
      "-o",
      "/dev/null",
      "-w",
      "%{http_code}",
      "-H",
      `Host: ${host}:${port}`,
      `${setup.hub.url}/health`,
    ])
    expect(stdout).toBe("421")
  })
})
