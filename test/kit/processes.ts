/** Processes started by a test's runner, found in /proc by the state directory in their environment. */
import { carriersOf, commandOf, listProcesses } from "../../src/runner/host/processes.ts"
import type { TestRunner } from "./runner.ts"
import { untilFound } from "./until-true.ts"

interface Found {
  readonly pid: number
  readonly command: string
}

/** OpenCode and all its descendants, orphaned daemons included. */
export const processesOf = ({ sandbox }: Pick<TestRunner, "sandbox">): readonly Found[] =>
  carriersOf(
    "OPENCODE_CONFIG_DIR",
    `${sandbox.stateDir}/session/opencode/config`,
    listProcesses(),
  ).map(({ pid }) => ({ pid, command: commandOf(pid) }))

const findAgent = (runner: Pick<TestRunner, "sandbox">): number | undefined =>
  processesOf(runner).find(({ command }) => command.includes(" serve "))?.pid

export const agentPid = (runner: Pick<TestRunner, "sandbox">): number => {
  const found = findAgent(runner)
  if (found === undefined) throw new Error("OpenCode is not running")
  return found
}

/** For an OpenCode that is being started: between fork and exec its process is not to be recognized. */
export const untilAgentPid = (runner: Pick<TestRunner, "sandbox">): Promise<number> =>
  untilFound(() => findAgent(runner), "OpenCode's process")
