/** The machine's side of a runner alone, without OpenCode: for what happens before and beside it. */
import { createHost, type Host, type ComponentState } from "../../src/runner/host/host.ts"
import { plannedDirectory } from "../../src/runner/host/prepare-repositories.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createLog } from "../../src/lib/log.ts"
import { configOf, requireBinary, type Sandbox } from "./runner.ts"
import { runToEnd } from "./run-to-end.ts"

export interface TestHost extends Host {
  /** Where the agent is to work. */
  readonly directory: string
  readonly log: string[]
  /** Each part's latest state and reason. */
  readonly parts: Map<string, { readonly state: ComponentState; readonly why?: string | undefined }>
  readonly progress: string[]
  /** What git, started in the workspace as the agent would start it, prints. */
  readonly git: (cwd: string, ...words: readonly string[]) => Promise<{ code: number; out: string }>
}

export const API_TOKEN = "api-token-of-the-host-tests"

export const startHost = async (
  sandbox: Sandbox,
  env: Record<string, string>,
  memory = new Map<string, string>(),
): Promise<TestHost> => {
  const config = configOf({ ...sandbox.environment, ...env })
  const { PATH = "", HOME = "" } = sandbox.environment
  const lines: string[] = []
  const parts: TestHost["parts"] = new Map()
  const progress: string[] = []
  const host = createHost({
    config,
    current: () => config,
    self: [requireBinary()],
    apiToken: API_TOKEN,
    user: undefined,
    environment: { PATH, HOME },
    clock: systemClock,
    log: createLog({
      level: "debug",
      format: "json",
      secrets: config.secrets,
      write: (line) => void lines.push(line),
      now: Date.now,
    }),
    memory: {
      read: (name) => memory.get(name),
      write: (name, value) => void memory.set(name, value),
    },
    setComponent: (name, state, why) => {
      parts.set(name, { state, why })
      if (name === "workspace" && state === "starting" && why) progress.push(why)
    },
    runHook: async (hook) => ({ ran: hook }),
    runWorkflow: async (order) => ({ ran: order }),
  })
  await host.start()
  return {
    ...host,
    directory: plannedDirectory(config.workDir, config.repositories),
    log: lines,
    parts,
    progress,
    git: async (cwd, ...words) => {
      const { out, err, code } = await runToEnd(["git", ...words], {
        cwd,
        env: {
          PATH,
          HOME,
          GIT_TERMINAL_PROMPT: "0",
          SANDPIPER_API_TOKEN: API_TOKEN,
        },
      })
      return { code, out: `${out}${err}` }
    },
  }
}
