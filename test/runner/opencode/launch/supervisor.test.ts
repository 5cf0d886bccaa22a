/** The supervisor with a launcher in memory: configurations that come while OpenCode is started or reads its files. */
import { expect, test } from "bun:test"
import type { RuntimeConfig } from "../../../../src/runner/opencode/config/compose-config.ts"
import type { LaunchPlan } from "../../../../src/runner/opencode/config/launch-plan.ts"
import type { RunningAgent } from "../../../../src/runner/opencode/launch/launcher.ts"
import { createSupervisor } from "../../../../src/runner/opencode/launch/supervisor.ts"
import { createManualClock } from "../../../kit/clock.ts"
import { recordingLog } from "../../../kit/log.ts"

const first: RuntimeConfig = { instructions: ["one"] }
const second: RuntimeConfig = { instructions: ["two"] }

const agent: RunningAgent = {
  client: {} as RunningAgent["client"],
  version: "test",
  pid: 1,
  url: "http://127.0.0.1:1",
  adopted: false,
  exited: new Promise(() => {}),
  recordConfigHash: async () => {},
  stop: async () => {},
}

const setUp = (saveConfig = () => {}) => {
  const clock = createManualClock()
  const lines: string[] = []
  /** What was done, in order. */
  const done: string[] = []
  /** The launches and reloads that wait for the test. */
  const waiting: PromiseWithResolvers<void>[] = []
  const wait = () => {
    const gate = Promise.withResolvers<void>()
    waiting.push(gate)
    return gate.promise
  }
  const nameOf = ({ runtime }: LaunchPlan) => runtime.instructions?.join() ?? ""
  const supervisor = createSupervisor({
    makePlan: (runtime) =>
      ({ runtime, hash: JSON.stringify(runtime), processHash: "p" }) as LaunchPlan,
    savedConfig: {},
    saveConfig,
    launch: async (plan) => {
      done.push(`launch ${nameOf(plan)}`)
      await wait()
      return agent
    },
    connect: async () => {},
    reload: async (_agent, _gone, _from, to) => {
      done.push(`reload ${nameOf(to)}`)
      await wait()
    },
    waitUntilHung: () => new Promise(() => {}),
    onLost: () => {},
    onFatal: (error) => void done.push(`fatal ${error}`),
    pauseTurns: async () => void done.push("pause turns"),
    resumeTurns: () => void done.push("resume turns"),
    pauseTimeoutMs: 30_000,
    clock,
    log: recordingLog(lines),
  })
  /** Lets everything happen that does not wait for the test. */
  const settle = async () => {
    for (let round = 0; round < 3; round += 1) {
      // Sleep: yields, so that everything happens that does not wait for the clock.
      await Bun.sleep(0)
      clock.advance(100)
    }
    // Sleep: yields for what the last step of the clock has started.
    await Bun.sleep(0)
  }
  const finishNext = async () => {
    waiting.shift()?.resolve()
    await settle()
  }
  return { supervisor, done, lines, settle, finishNext }
}

const applied = { success: true, restarted: false }

test("a configuration that comes during the launch is applied after it, and turns wait for it", async () => {
  const { supervisor, done, settle, finishNext } = setUp()
  const one = supervisor.configure(first)
  await settle()
  expect(supervisor.isSuperseded()).toBe(false)
  const two = supervisor.configure(second)
  expect(supervisor.isSuperseded()).toBe(true)
  await finishNext()
  expect(done).toEqual(["launch one", "pause turns", "reload two"])
  await finishNext()
  expect(done.slice(3)).toEqual(["resume turns"])
  expect(await Promise.all([one, two])).toEqual([applied, applied])
  expect(supervisor.phase()).toBe("up")
})

test("a configuration that comes during a reload is applied after it", async () => {
  const { supervisor, done, settle, finishNext } = setUp()
  void supervisor.configure({})
  await settle()
  await finishNext()
  const one = supervisor.configure(first)
  await settle()
  const two = supervisor.configure(second)
  await finishNext()
  await finishNext()
  expect(done).toEqual([
    "launch ",
    "resume turns",
    "pause turns",
    "reload one",
    "pause turns",
    "reload two",
    "resume turns",
  ])
  expect(await Promise.all([one, two])).toEqual([applied, applied])
})

test("a configuration that cannot be stored is in force, and the next one is applied", async () => {
  const saveConfig = () => {
    throw new Error("database or disk is full")
  }
  const { supervisor, done, lines, settle, finishNext } = setUp(saveConfig)
  const one = supervisor.configure(first)
  await settle()
  const two = supervisor.configure(second)
  await finishNext()
  await finishNext()
  expect(await Promise.all([one, two])).toEqual([applied, applied])
  expect(done.at(-1)).toBe("resume turns")
  expect(lines.filter((line) => line.includes("agent.config-not-saved"))).toHaveLength(2)
})
