/** Turns of OpenCode's TUI that the runner does not see begin: none runs, or OpenCode gets a new configuration. */
import { Database } from "bun:sqlite"
import { expect, setDefaultTimeout, test } from "bun:test"
import { join } from "node:path"
import { freePort } from "../kit/free-port.ts"
import { text } from "../kit/model.ts"
import {
  createSandbox,
  type Sandbox,
  scriptedConfig,
  spawnRunner,
  startRunner,
} from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { useStage } from "../kit/stage.ts"
import { untilTrue } from "../kit/until-true.ts"

setDefaultTimeout(240_000)
const PASSWORD = "password-of-the-tui"
const stage = useStage()

const agentSessionOf = ({ stateDir }: Sandbox): string => {
  const db = new Database(join(stateDir, "session/state.db"), { readonly: true })
  const row = db.query<{ session: string }, []>("SELECT session FROM channels").get()
  db.close()
  return row?.session ?? ""
}
const call = (url: string, init: RequestInit = {}) =>
  fetch(url, {
    ...init,
    headers: {
      Authorization: `Basic ${btoa(`opencode:${PASSWORD}`)}`,
      "Content-Type": "application/json",
    },
  })
/** Posts a prompt as the TUI does, again and again until OpenCode takes it. */
const type = (base: string, session: string, content: string) =>
  untilTrue(async () => {
    const body = JSON.stringify({ parts: [{ type: "text", text: content }] })
    const path = `/session/${session}/prompt_async`
    const response = await call(base + path, { method: "POST", body }).catch(() => undefined)
    return response?.ok === true
  }, `OpenCode that takes ${content}`)
const shownTexts = (agent: TestSessionAgent) =>
  agent.frames.flatMap((frame) => (frame.type === "message.finalize" ? [frame.finalText] : []))
const begin = async (agent: TestSessionAgent) => {
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  stage.model().on("begin", [text("Begun.")])
  agent.say({ type: "prompt", messageId: "begin", content: "@@begin@@" })
  await agent.until(() => shownTexts(agent).includes("Begun."), "the first answer")
}

test("turns that OpenCode's TUI makes while no runner runs are shown by the next runner, once and in order", async () => {
  const agent = stage.put(startTestSessionAgent({ config: scriptedConfig(stage.model()) }))
  const sandbox = await createSandbox(agent)
  const opencode = `http://127.0.0.1:${freePort()}`
  Object.assign(sandbox.environment, {
    GATEWAY_PORT: String(freePort()),
    OPENCODE_URL: opencode,
    OPENCODE_SERVER_PASSWORD: PASSWORD,
  })
  const victim = spawnRunner(sandbox)
  await begin(agent)
  victim.kill("SIGKILL")
  await victim.exited

  const session = agentSessionOf(sandbox)
  for (const name of ["alone-1", "alone-2"]) {
    stage.model().on(name, [text(`Answer of ${name}.`)])
    await type(opencode, session, `@@${name}@@`)
    await untilTrue(async () => {
      const messages = await (await call(`${opencode}/session/${session}/message`)).text()
      const statuses = await (await call(`${opencode}/session/status`)).text()
      return messages.includes(`Answer of ${name}.`) && !statuses.includes(session)
    }, `the end of ${name}`)
  }

  const next = stage.put(await startRunner(agent, {}, { in: sandbox }))
  await agent.until(() => shownTexts(agent).includes("Answer of alone-2."), "both turns")
  stage.model().on("after", [text("After.")])
  agent.say({ type: "prompt", messageId: "after", content: "@@after@@" })
  await agent.until(() => shownTexts(agent).includes("After."), "the next answer")
  expect(shownTexts(agent)).toEqual([
    "Begun.",
    "Answer of alone-1.",
    "Answer of alone-2.",
    "After.",
  ])
  expect(next.log.join("\n")).toContain("agent.adopted")
})

interface Stored {
  readonly info: { readonly id: string; readonly role: string; readonly parentID?: string }
  readonly parts: readonly { readonly text?: string }[]
}

test("every prompt of the TUI that OpenCode begins to answer around a change of the config is shown", async () => {
  const config = scriptedConfig(stage.model())
  const agent = stage.put(startTestSessionAgent({ config }))
  const runner = stage.put(await startRunner(agent, { OPENCODE_SERVER_PASSWORD: PASSWORD }))
  await begin(agent)
  const session = agentSessionOf(runner.sandbox)
  const base = `${runner.gatewayUrl}/opencode`
  const configs = () => agent.frames.filter((frame) => frame.type === "opencode-config-applied")
  const messages = async () => {
    const response = await call(`${base}/session/${session}/message`).catch(() => undefined)
    return response?.ok ? ((await response.json()) as readonly Stored[]) : []
  }
  /** True when OpenCode has begun to answer a prompt with this text. */
  const isAnswered = async (content: string) => {
    const all = await messages()
    const ids = all.flatMap(({ info, parts }) =>
      info.role === "user" && parts.some((part) => part.text === content) ? [info.id] : [],
    )
    return all.some(({ info }) => info.parentID !== undefined && ids.includes(info.parentID))
  }
  const isIdle = async () => {
    const response = await call(`${base}/session/status`).catch(() => undefined)
    return response?.ok === true && !(await response.text()).includes(session)
  }
  const sent: string[] = []
  /** Whether OpenCode answers the prompt: it has begun, or it is idle at many looks one after the other. */
  const isTaken = async (name: string): Promise<boolean> => {
    let idleLooks = 0
    await untilTrue(async () => {
      if (await isAnswered(`@@${name}@@`)) return true
      idleLooks = (await isIdle()) ? idleLooks + 1 : 0
      return idleLooks > 20
    }, `an answer to ${name}, or an idle OpenCode`)
    return isAnswered(`@@${name}@@`)
  }
  for (const [round, delayMs] of [0, 100, 400, 1200].entries()) {
    const before = configs().length
    // Instructions are applied without a new process of OpenCode, the role of an orchestrator with one.
    const change =
      round % 2 === 0 ? { instructions: [`Round ${round}.`] } : { isOrchestrator: round % 4 === 1 }
    agent.say({ type: "opencode-config", config: { ...config, ...change } })
    // Sleep: the prompt meets another moment of the change in each round.
    await Bun.sleep(delayMs)
    // A prompt that OpenCode takes just before it is stopped has no answer: the person sends it again.
    for (let time = 1; ; time += 1) {
      const name = `round-${round}-${time}`
      sent.push(name)
      stage.model().on(name, [text(`Answer of ${name}.`)])
      await type(base, session, `@@${name}@@`)
      await agent.until(() => configs().length > before, "the new config")
      if (!(await isTaken(name))) continue
      // A prompt that is sent during a turn would be answered in that turn.
      await untilTrue(isIdle, `the end of ${name}`)
      break
    }
  }
  const taken = await Promise.all(sent.map((name) => isAnswered(`@@${name}@@`)))
  const prompts = sent.filter((_, at) => taken[at])
  expect(prompts.length).toBeGreaterThanOrEqual(4)
  const shown = (name: string) =>
    agent.frames.some(
      (frame) => frame.type === "workflow-chat-message" && frame.content === `@@${name}@@`,
    )
  await agent.until(() => prompts.every(shown), "all prompts").catch(() => {})
  expect(prompts.filter((name) => !shown(name))).toEqual([])
  const stored = JSON.stringify(await messages())
  const complete = prompts
    .map((name) => `Answer of ${name}.`)
    .filter((words) => stored.includes(words))
  await agent
    .until(() => complete.every((words) => shownTexts(agent).includes(words)), "answers")
    .catch(() => {})
  const answers = shownTexts(agent).filter((one) => one?.startsWith("Answer"))
  expect(answers).toEqual(complete)
})
