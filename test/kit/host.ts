/** The `host` module of a runner without OpenCode: repositories, services, hooks and the control socket. */
import { createHost, type Host, type ComponentState } from "../../src/runner/host/host.ts"
import type { PanelServices } from "../../src/runner/host/panel-services.ts"
import { plannedDirectory } from "../../src/runner/host/prepare-repositories.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createLog } from "../../src/lib/log.ts"
import { configOf, requireBinary, type Sandbox } from "./runner.ts"
import { runToEnd } from "./run-to-end.ts"

export interface TestHost extends Host {
  /** The agent's working directory. */
  readonly directory: string
  readonly log: string[]
  /** The latest state and reason of each component. */
  readonly parts: Map<string, { readonly state: ComponentState; readonly why?: string | undefined }>
  readonly progress: string[]
  /** The services as clients see them, after each change. */
  readonly panels: PanelServices[]
  /** Runs git with the environment of the agent; resolves with its exit code and output. */
  readonly git: (cwd: string, ...args: readonly string[]) => Promise<{ code: number; out: string }>
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
  const panels: PanelServices[] = []
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
    issueGitToken: () => Promise.reject(new Error("no session agent")),
    hasTerminals: true,
    setServices: (services) => void panels.push(services),
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
    panels,
    git: async (cwd, ...args) => {
      const { out, err, code } = await runToEnd(["git", ...args], {
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
