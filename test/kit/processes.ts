/** Processes started by a test's runner, found in /proc by the state directory in their environment. */
import { carriersOf, commandOf, listProcesses } from "../../src/runner/host/processes.ts"
import type { TestRunner } from "./runner.ts"

interface Found {
  readonly pid: number
  readonly command: string
}

/** OpenCode and all its descendants, orphaned daemons included. */
export const processesOf = ({ sandbox }: Pick<TestRunner, "sandbox">): readonly Found[] =>
  carriersOf("OPENCODE_CONFIG_DIR", `${sandbox.stateDir}/opencode/config`, listProcesses()).map(
    ({ pid }) => ({ pid, command: commandOf(pid) }),
  )

export const agentPid = (runner: Pick<TestRunner, "sandbox">): number => {
  const found = processesOf(runner).find(({ command }) => command.includes(" serve "))
  if (!found) throw new Error("OpenCode is not running")
  return found.pid
}
