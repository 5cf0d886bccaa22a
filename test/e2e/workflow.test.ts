/** Workflows with real commands, turns and tools of a real OpenCode, started over the link and from the command line. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type Conversation, startConversation } from "../kit/conversation.ts"
import { hang, reply, text, tool } from "../kit/model.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { requireBinary } from "../kit/runner.ts"

let c: Conversation
beforeAll(async () => {
  c = await startConversation({
    GITHUB_TOKEN: "ghp_a-secret-of-the-runner",
    PARALLEL_API_KEY: "a-key-of-the-runners-own",
  })
})
afterAll(() => c.stop())

const order = (executionId: string, steps: readonly unknown[], more: object = {}) => {
  const payload = { workflow: { steps }, ...more }
  c.agent.say({
    type: "workflow-execute",
    executionId,
    payload: { kind: "run", executionId, payload },
  })
}
const answersTo = (executionId: string) =>
  c.agent.frames.flatMap((frame) =>
    frame.type === "workflow-execution-result" && frame.executionId === executionId
      ? [frame.envelope]
      : [],
  )
const answered = async (executionId: string, count = 1) => {
  await c.agent.until(() => answersTo(executionId).length >= count, "answer")
  const answers = answersTo(executionId)
  expect(answers).toHaveLength(count)
  return answers[count - 1]
}
const execute = async (executionId: string, steps: readonly unknown[], more: object = {}) => {
  order(executionId, steps, more)
  return answered(executionId)
}
const bash = (id: string, command: string, more: object = {}) => ({
  type: "bash",
  id,
  command,
  ...more,
})
/** The pid makes this command line unique: other tests on this machine run `sleep` too. */
const sleep = (seconds: number) => `sleep ${seconds}.${process.pid}`
const running = (commandLine: string) => {
  const found = Bun.spawnSync(["pgrep", "-fx", commandLine]).stdout.toString()
  return found.split("\n").filter(Boolean).length
}

describe("a command step", () => {
  test("a command runs in the workspace and its output is available to the next step", async () => {
    const envelope = await execute(
      "bash",
      [
        bash("where", "pwd; echo oops >&2"),
        bash("again", "echo '{{outputs.where}}' | tail -1; echo {{variables.who}}", {
          outputVariable: "said",
        }),
        bash("last", "echo -n 'said: {{variables.said}}'"),
      ],
      { variables: { who: "ann" } },
    )
    expect(envelope).toMatchObject({ ok: true, status: "ok", output: "said: oops\nann" })
    expect(envelope?.steps?.[0]?.output).toBe(`${c.runner.sandbox.workDir}\noops`)
  })

  test("a command has the agent's environment and none of the runner's secrets", async () => {
    const { output } = (await execute("env", [bash("env", "env; cat /proc/self/environ")])) ?? {}
    expect(String(output)).toContain("HOME=")
    for (const secret of ["ghp_a-secret", "a-key-of-the", "a secret of the tests", c.agent.token]) {
      expect(String(output)).not.toContain(secret)
    }
  })

  test("a failed command ends the run with its exit code and output", async () => {
    const envelope = await execute("fails", [bash("a", "echo why; exit 3"), bash("b", "true")])
    expect(envelope).toMatchObject({ ok: false, status: "failed", error: "a: exit code 3: why" })
    expect(envelope?.steps).toHaveLength(1)
  })

  test("a command that exceeds its timeout is ended with all its child processes", async () => {
    const envelope = await execute("slow", [
      bash("a", `${sleep(711)} & ${sleep(711)}`, { timeoutMs: 500 }),
    ])
    expect(envelope?.error).toContain("took longer than 500 ms")
    expect(running(sleep(711))).toBe(0)
  })

  test("the output of a command is limited to 64000 characters", async () => {
    const envelope = await execute("long", [bash("a", "head -c 300000 /dev/zero | tr '\\0' x")])
    expect(String(envelope?.output)).toHaveLength(64_000)
  })

  test("a command with a working directory outside the workspace is refused", async () => {
    const envelope = await execute("outside", [bash("a", "pwd", { cwd: "../.." })])
    expect(envelope).toMatchObject({ status: "failed" })
  })
})

describe("a step of the agent", () => {
  test("agent steps run on a channel of their execution and share one conversation", async () => {
    c.model.on("goal", [text("The word is curlew.")])
    c.model.on("again", [text("It was curlew.")])
    const envelope = await execute(
      "agent",
      [
        { type: "agent", id: "one", goal: "@@goal@@ for {{variables.who}}", context: "a beach" },
        { type: "agent", id: "two", goal: "@@again@@ {{outputs.one}}", model: "scripted/m2" },
      ],
      { variables: { who: "ann" } },
    )
    expect(envelope).toMatchObject({ status: "ok", output: "It was curlew." })
    const asked = c.model.requests.at(-1)
    expect(asked?.model).toBe("m2")
    expect(JSON.stringify(asked?.messages)).toContain("@@goal@@ for ann")
    expect(JSON.stringify(asked?.messages)).toContain("a beach")
    const channels = c.agent.frames.flatMap((frame) =>
      frame.type === "message.create" && frame.channelType === "workflow" ? [frame.channelId] : [],
    )
    expect(channels).toContain("agent")
  })

  test("a failed turn fails its step with the reason", async () => {
    const envelope = await execute("bad-model", [
      { type: "agent", id: "a", goal: "hello", model: "scripted/nosuch" },
    ])
    expect(envelope).toMatchObject({ status: "failed" })
    expect(envelope?.error).toStartWith("a: ")
  })

  test("the output of a tool step is the tool's result, not the model's text", async () => {
    c.model.on(/Call the tool `bash`/, [
      tool("bash", { command: "echo from-the-tool", description: "says it" }),
      text("I ran it, and it said something else."),
    ])
    const envelope = await execute(
      "tool",
      [{ type: "tool", id: "t", tool: "bash", arguments: { command: "{{variables.what}}" } }],
      { variables: { what: "echo from-the-tool" } },
    )
    expect(envelope).toMatchObject({ status: "ok", output: "from-the-tool\n" })
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("echo from-the-tool")
  })

  test("a tool step fails when the agent does not call the tool", async () => {
    c.model.on(/Call the tool `webfetch`/, [text("I called it. It went well.")])
    const envelope = await execute("no-tool", [{ type: "tool", id: "t", tool: "webfetch" }])
    expect(envelope).toMatchObject({
      status: "failed",
      error: "t: the agent did not call the tool webfetch",
    })
  })

  test("an agent_message step posts to the session and the run does not wait for the reply", async () => {
    c.model.on("told", [text("Thank you.")])
    const envelope = await execute("tell", [
      { type: "agent_message", id: "m", content: "@@told@@" },
    ])
    expect(envelope).toMatchObject({ status: "ok" })
    expect(await c.agent.frame("workflow-chat-message")).toMatchObject({ content: "@@told@@" })
    const { channelType, channelId } = await c.agent.frame("message.finalize", (frame) =>
      String(frame.finalText).includes("Thank you."),
    )
    expect({ channelType, channelId }).toEqual({ channelType: "web", channelId: "default" })
  })

  test("an agent_message step with await_response returns the reply", async () => {
    c.model.on("awaited", [text("Forty-two.")])
    const envelope = await execute("await", [
      { type: "agent_message", id: "m", goal: "@@awaited@@", await_response: true },
    ])
    expect(envelope).toMatchObject({ status: "ok", output: "Forty-two." })
  })

  test("an agent_message step that exceeds await_timeout_ms fails and its turn is stopped", async () => {
    c.model.on("silent", [hang()])
    const envelope = await execute("late", [
      {
        type: "agent_message",
        id: "m",
        content: "@@silent@@",
        awaitResponse: true,
        await_timeout_ms: 1500,
      },
    ])
    expect(envelope?.error).toContain("no reply within 1500 ms")
    await c.agent.frame("complete", ({ channelId }) => channelId === "late/m")
  })
})

test("a workflow with parallel, loop, condition and approval runs every step once, also when it is ordered twice", async () => {
  const log = join(c.runner.sandbox.workDir, "done.log")
  const did = (what: string) => `echo ${what} >> done.log`
  const steps = [
    { type: "parallel", steps: [bash("p1", did("p1")), bash("p2", did("p2"))] },
    { type: "loop", over: ["x", "y"], steps: [bash("l", did("{{variables.item}}"))] },
    { type: "approval", id: "ok", prompt: "Go on with {{variables.what}}?" },
    {
      type: "conditional",
      condition: { variable: "what", equals: "it" },
      then: [bash("yes", did("yes"))],
      else: [bash("no", did("no"))],
    },
  ]
  const more = { variables: { what: "it" }, runtime: { idempotencyKey: "whole-1" } }
  const first = await execute("whole", steps, more)
  expect(first).toMatchObject({
    ok: true,
    status: "needs_approval",
    requiresApproval: { stepId: "ok", prompt: "Go on with it?" },
  })
  order("whole", steps, more)
  expect(await answered("whole", 2)).toEqual(first)
  const resume = (resumeToken: string) =>
    c.agent.say({
      type: "workflow-execute",
      executionId: "whole",
      payload: {
        kind: "resume",
        executionId: "whole",
        resumeToken,
        decision: "approve",
        payload: { workflow: { steps }, variables: { what: "it" } },
      },
    })
  resume("not-the-token")
  expect(await answered("whole", 3)).toMatchObject({ status: "failed" })
  resume(first?.requiresApproval?.resumeToken ?? "")
  expect(await answered("whole", 4)).toMatchObject({ status: "ok" })
  const lines = (await Bun.file(log).text()).trim().split("\n")
  expect(lines.toSorted()).toEqual(["p1", "p2", "x", "y", "yes"])
})

test("an abort ends the commands and turns of a workflow and its result is cancelled", async () => {
  c.model.on("endless", [hang()])
  order("abort", [
    {
      type: "parallel",
      steps: [bash("b", sleep(712)), { type: "agent", id: "a", goal: "@@endless@@" }],
    },
    bash("never", "touch never"),
  ])
  await c.agent.until(() => running(sleep(712)) > 0, "command")
  await c.agent.until(
    () => c.model.requests.some((one) => JSON.stringify(one.messages).includes("@@endless@@")),
    "turn",
  )
  const from = c.agent.frames.length
  c.agent.say({ type: "abort", channelType: "workflow", channelId: "abort" })
  await c.agent.frame("aborted", ({ channelId }) => channelId === "abort", from)
  expect(await answered("abort")).toMatchObject({
    ok: false,
    status: "cancelled",
    error: "stopped by the user",
  })
  expect(running(sleep(712))).toBe(0)
  expect(existsSync(join(c.runner.sandbox.workDir, "never"))).toBeFalse()
})

describe("sandpiper workflow", () => {
  const shell = (...args: readonly string[]) =>
    runToEnd([requireBinary(), "workflow", ...args], {
      cwd: c.runner.sandbox.root,
      env: c.runner.sandbox.environment,
    })
  const file = async (name: string, content: unknown) => {
    await writeFile(join(c.runner.sandbox.root, name), JSON.stringify(content))
    return name
  }

  test("workflow validate works without a runner", async () => {
    const good = await file("good.json", { steps: [bash("a", "true")] })
    const { out, code } = await shell("validate", good, "--state-dir", "/nowhere")
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ valid: true, steps: 1 })
    const bad = await shell("validate", await file("bad.json", { steps: [{ type: "bash" }] }))
    expect(bad.code).toBe(1)
    expect(bad.err).toContain("steps.0.command")
    const none = await shell("validate", "nosuch.json")
    expect([none.code, none.err]).toEqual([2, expect.stringContaining("nosuch.json")])
    expect((await shell("run")).code).toBe(2)
  })

  test("workflow run stops for approval, and workflow resume continues or denies it", async () => {
    const workflow = await file("wf.json", {
      steps: [
        bash("a", "echo {{variables.x}}"),
        { type: "approval", id: "ok" },
        { type: "agent", id: "b", goal: "@@shell@@" },
      ],
    })
    const first = await shell("run", workflow, "--variables", '{"x":"hello"}')
    expect(first.code).toBe(1)
    expect(JSON.parse(first.out)).toMatchObject({ status: "needs_approval" })
    c.model.on("shell", [text("From the agent.")])
    await writeFile(join(c.runner.sandbox.root, "run.json"), first.out)
    const second = await shell("resume", "run.json")
    expect(JSON.parse(second.out)).toMatchObject({ status: "ok", output: "From the agent." })
    expect(second.code).toBe(0)

    const other = await shell("run", workflow, "--variables", '{"x":"hello"}')
    await writeFile(join(c.runner.sandbox.root, "run.json"), other.out)
    const denied = await shell("resume", "run.json", "--deny")
    expect(JSON.parse(denied.out)).toMatchObject({ status: "cancelled" })
    expect(denied.code).toBe(1)
  })

  test("the agent's own run shows no token for its approval, the agent cannot resume it, and the runner's user can", async () => {
    c.model.on("token", [
      reply(tool("bash", { command: "echo token=$SANDPIPER_API_TOKEN", description: "x" })),
      text("seen"),
    ])
    c.agent.say({ type: "prompt", messageId: "token", content: "@@token@@" })
    const { result } = await c.agent.frame(
      "message.part.tool-update",
      (frame) => frame.messageId === "token" && frame.status === "completed",
    )
    const apiToken = /token=(\S+)/.exec(String(result))?.[1] ?? ""
    const asAgent = (...args: readonly string[]) =>
      runToEnd([requireBinary(), "workflow", ...args], {
        cwd: c.runner.sandbox.root,
        env: { ...c.runner.sandbox.environment, SANDPIPER_API_TOKEN: apiToken },
      })
    const gate = await file("gate.json", {
      steps: [{ type: "approval", id: "ok" }, bash("b", "touch past-the-gate")],
    })
    const waiting = await asAgent("run", gate)
    expect(JSON.parse(waiting.out)).toMatchObject({ requiresApproval: { stepId: "ok" } })
    expect(waiting.out).not.toContain("resumeToken")
    await writeFile(join(c.runner.sandbox.root, "waiting.json"), waiting.out)
    const refused = await asAgent("resume", "waiting.json")
    expect(refused.code).toBe(1)
    expect(refused.out).toContain("a person's decision")
    expect(existsSync(join(c.runner.sandbox.workDir, "past-the-gate"))).toBeFalse()
    const approved = await shell("resume", "waiting.json")
    expect(JSON.parse(approved.out)).toMatchObject({ status: "ok" })
    expect(existsSync(join(c.runner.sandbox.workDir, "past-the-gate"))).toBeTrue()
  })

  test("SIGINT on workflow run cancels the execution and ends its command", async () => {
    const workflow = await file("slow.json", { steps: [bash("a", sleep(713))] })
    const child = Bun.spawn([requireBinary(), "workflow", "run", workflow], {
      cwd: c.runner.sandbox.root,
      env: { ...c.runner.sandbox.environment },
      stdout: "ignore",
      stderr: "ignore",
    })
    await c.agent.until(() => running(sleep(713)) > 0, "command")
    child.kill("SIGINT")
    await child.exited
    await c.agent.until(() => running(sleep(713)) === 0, "end of the command")
  })
})
