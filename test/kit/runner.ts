/** A complete runner for a test: own directories and ports, the real OpenCode, everything removed at the end. */
import { existsSync } from "node:fs"
import { chown, mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { readInvocation, type Settings } from "../../src/settings/settings.ts"
import { createDaemon } from "../../src/runner/daemon.ts"
import type { Daemon, DaemonOptions } from "../../src/runner/daemon-options.ts"
import { openStateParts } from "../../src/runner/state/open-parts.ts"
import type { Inbound } from "../../src/wire/frames/index.ts"
import { recordingLog } from "./log.ts"
import type { ScriptedModel } from "./model.ts"

const PLATFORM = `${process.platform}-${process.arch}`
const packageDirectory = (name: string): string =>
  dirname(Bun.resolveSync(`${name}/package.json`, import.meta.dir))

const opencodeBinary = join(packageDirectory(`opencode-${PLATFORM}`), "bin/opencode")
const ripgrepFolder = join(packageDirectory(`@vscode/ripgrep-${PLATFORM}`), "bin")

export const repositoryRoot = join(import.meta.dir, "../..")
/** The command that starts the program from source, without a build. */
export const runnerFromSource = [process.execPath, join(repositoryRoot, "src/main.ts")]
export const binaryPath = join(repositoryRoot, "dist/sandpiper")

export interface Sandbox {
  readonly root: string
  readonly workDir: string
  readonly stateDir: string
  /** The environment of a runner in this sandbox. */
  readonly environment: Record<string, string>
  readonly remove: () => Promise<void>
}

/** Makes a user the owner of the sandbox, for a runner that is this user. */
export const giveSandboxTo = async (
  { root, workDir, stateDir, environment }: Sandbox,
  uid: number,
): Promise<void> => {
  for (const path of [root, workDir, stateDir, environment["HOME"] ?? ""])
    await chown(path, uid, uid)
}

export const createSandbox = async (link: {
  readonly url: string
  readonly token: string
}): Promise<Sandbox> => {
  const root = await mkdtemp(join(tmpdir(), "sandpiper-"))
  const workDir = join(root, "workspace")
  const stateDir = join(root, "state")
  const home = join(root, "home")
  await Promise.all([mkdir(workDir), mkdir(home)])
  return {
    root,
    workDir,
    stateDir,
    environment: {
      PATH: [process.env["PATH"], ripgrepFolder].join(delimiter),
      HOME: home,
      OPENCODE_BIN: opencodeBinary,
      OPENCODE_URL: "http://127.0.0.1:0",
      GATEWAY_HOST: "127.0.0.1",
      GATEWAY_PORT: "0",
      WORK_DIR: workDir,
      SANDPIPER_STATE_DIR: stateDir,
      SESSION_ID: "test-session",
      JWT_SECRET: "a secret of the tests only",
      DO_WS_URL: link.url,
      RUNNER_TOKEN: link.token,
      LOG_LEVEL: "debug",
    },
    remove: () => rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }),
  }
}

export const configOf = (environment: Record<string, string>): Settings => {
  const invocation = readInvocation(["run"], environment, tmpdir())
  if (invocation.want !== "command") throw new Error("unreachable")
  return invocation.settings
}

export interface TestRunner {
  readonly daemon: Daemon
  readonly gatewayUrl: string
  readonly sandbox: Sandbox
  /** Every log line, as JSON. */
  readonly log: string[]
  readonly stop: () => Promise<void>
}

/** Starts a runner in this process, linked to `link`. */
export const startRunner = async (
  link: { readonly url: string; readonly token: string },
  extra: Record<string, string> = {},
  {
    in: given,
    furnish = async () => {},
    ...more
  }: {
    in?: Sandbox
    /** Prepares the sandbox before the runner starts. */
    furnish?: (sandbox: Sandbox) => Promise<unknown>
  } & Partial<DaemonOptions> = {},
): Promise<TestRunner> => {
  const sandbox = given ?? (await createSandbox(link))
  await furnish(sandbox)
  const config = configOf({ ...sandbox.environment, ...extra })
  const lines: string[] = []
  const log = recordingLog(lines, config.secrets)
  const daemon = createDaemon({
    self: runnerFromSource,
    config,
    state: await openStateParts({ config, log }),
    link,
    version: "test",
    log,
    ...more,
  })
  const gateway = await daemon.start()
  return {
    daemon,
    gatewayUrl: `http://127.0.0.1:${gateway.port}`,
    sandbox,
    log: lines,
    stop: async () => {
      await daemon.stop({ code: 0, why: "the test is over" })
      await sandbox.remove()
    },
  }
}

/** Starts a runner in a separate process that a test can kill. */
export const spawnRunner = ({ environment }: Sandbox, extra: Record<string, string> = {}) =>
  Bun.spawn([...runnerFromSource, "run"], {
    env: { ...environment, ...extra },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  })

/** The config of a session agent that makes OpenCode use the scripted model. */
export const scriptedConfig = (model: ScriptedModel): Inbound<"opencode-config">["config"] => ({
  customProviders: [
    {
      providerId: "scripted",
      displayName: "Scripted model",
      baseUrl: model.url,
      apiKey: model.apiKey,
      models: [{ id: "m1", inputs: ["text", "image"] }, { id: "m2" }, { id: "m3" }],
    },
  ],
})

/** The path of the compiled binary; throws with the command to build it when it is missing. */
export const requireBinary = (): string => {
  if (existsSync(binaryPath)) return binaryPath
  throw new Error("dist/sandpiper is missing: npm run build (npm test does it by itself)")
}
