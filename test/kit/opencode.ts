/** Starts a real `opencode serve` that makes no network calls and writes only to one temporary directory. */
import { randomBytes } from "node:crypto"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { z } from "zod"
import { waitForHealth } from "../../src/runner/opencode/launch/health.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { freePort } from "./free-port.ts"

interface OpenCodeOptions {
  /** Merged over a base configuration with sharing and updates disabled. */
  readonly config: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, string>>
  /** Load OpenCode's full model catalogue (slow); the default is the models of `config` only. */
  readonly ownModels?: boolean
  /** Interval of the health checks during start-up. */
  readonly pollMs?: number
}

export interface OpenCode {
  readonly url: string
  /** The password of the user `opencode`. */
  readonly password: string
  /** Its working directory, empty at the start. */
  readonly directory: string
  /** Ends the process and removes its temporary directory. */
  readonly stop: () => Promise<void>
}

export async function startOpenCode({
  config,
  env = {},
  ownModels = false,
  pollMs = 200,
}: OpenCodeOptions): Promise<OpenCode> {
  const root = await mkdtemp(join(tmpdir(), "opencode-"))
  const directory = join(root, "workspace")
  const models = join(root, "models.json")
  await Promise.all([
    mkdir(directory),
    stubPluginInstall(join(root, "config", "opencode")),
    writeFile(models, "{}"),
  ])
  const port = freePort()
  const password = randomBytes(12).toString("hex")
  const errors = Bun.file(join(root, "stderr.log"))
  const child = Bun.spawn([join(OPENCODE, "bin/opencode"), "serve", "--port", String(port)], {
    cwd: directory,
    stdin: "ignore",
    stdout: "ignore",
    stderr: errors,
    env: {
      ...closedEnvironment(root),
      ...(!ownModels && { OPENCODE_MODELS_PATH: models }),
      OPENCODE_SERVER_PASSWORD: password,
      OPENCODE_CONFIG_CONTENT: JSON.stringify({ autoupdate: false, share: "disabled", ...config }),
      ...env,
    },
  })
  const url = `http://127.0.0.1:${port}`
  const call: Call = (method, path) =>
    fetch(url + path, {
      method,
      headers: { authorization: `Basic ${btoa(`opencode:${password}`)}` },
      // OpenCode may never respond on a connection made during its start-up.
      signal: AbortSignal.timeout(1_000),
    })
  const stop = async (): Promise<void> => {
    if (child.exitCode === null) await abortBusySessions(call).catch(() => undefined)
    child.kill()
    await child.exited
    await rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }

  try {
    await waitForHealth({
      client: {
        health: async () => health.parse(await (await call("GET", "/global/health")).json()),
      },
      isListening: () => true,
      exitReason: () =>
        child.exitCode === null ? undefined : `exited with code ${child.exitCode}`,
      describeLog: async () => `; it said: ${await errors.text()}`,
      timeoutMs: 60_000,
      pollMs,
      clock: systemClock,
      signal: new AbortController().signal,
    })
  } catch (error) {
    await stop()
    throw error
  }
  return { url, password, directory, stop }
}

type Call = (method: "GET" | "POST", path: string) => Promise<Response>

const health = z.object({ version: z.string() })

/** Shells of running tools outlive OpenCode's process; only an abort ends them. */
async function abortBusySessions(call: Call): Promise<void> {
  const status = z.record(z.string(), z.unknown())
  const busy = status.parse(await (await call("GET", "/session/status")).json())
  await Promise.all(Object.keys(busy).map((id) => call("POST", `/session/${id}/abort`)))
}

/** Inherits only PATH, so that no key and no setting of the user has an effect. */
const closedEnvironment = (root: string): Record<string, string> => ({
  PATH: [join(RIPGREP, "bin"), process.env["PATH"]].join(delimiter),
  HOME: join(root, "home"),
  XDG_CONFIG_HOME: join(root, "config"),
  XDG_DATA_HOME: join(root, "data"),
  XDG_CACHE_HOME: join(root, "cache"),
  XDG_STATE_HOME: join(root, "state"),
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
})

/** Writes a lock file that lists the plugin package; without it OpenCode installs the package over the network. */
async function stubPluginInstall(directory: string): Promise<void> {
  const { version } = z
    .object({ version: z.string() })
    .parse(await Bun.file(join(OPENCODE, "package.json")).json())
  const dependencies = { "@opencode-ai/plugin": version }
  await mkdir(join(directory, "node_modules"), { recursive: true })
  await writeFile(join(directory, "package.json"), JSON.stringify({ dependencies }))
  const lock = { lockfileVersion: 3, packages: { "": { dependencies } } }
  await writeFile(join(directory, "package-lock.json"), JSON.stringify(lock))
}

const packageDirectory = (name: string): string =>
  dirname(Bun.resolveSync(`${name}/package.json`, import.meta.dir))

const PLATFORM = `${process.platform}-${process.arch}`
const OPENCODE = packageDirectory(`opencode-${PLATFORM}`)
const RIPGREP = packageDirectory(`@vscode/ripgrep-${PLATFORM}`)
