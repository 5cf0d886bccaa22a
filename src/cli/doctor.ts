/** What is installed, what is in the way: a line each, worst told by the exit code. */
import { mkdir, rm, statfs, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { findOpenCode } from "../runner/opencode/launch/binaries.ts"
import { providerKeysOf } from "../runner/opencode/config/compose-config.ts"
import type { Settings } from "../settings/settings.ts"
import { commandOf, isTaken, listenerOf } from "../runner/host/processes.ts"
import { type ServiceGroup, servicesOf } from "../runner/host/service-table.ts"
import { describeError } from "../lib/log.ts"
import { runCommand } from "../lib/run-command.ts"

/** `bad` keeps the runner from working, `warn` takes something away from it. */
type Verdict = "ok" | "warn" | "bad"

interface Finding {
  readonly what: string
  readonly verdict: Verdict
  readonly words: string
}

export interface Examination {
  readonly lines: readonly string[]
  readonly healthy: boolean
}

export const examine = async (config: Settings): Promise<Examination> => {
  const looks = [programs(config), directories(config), clock(config), models(config)]
  const findings = [...(await Promise.all(looks)).flat(), ...ports(config)]
  return {
    lines: findings.map(
      ({ what, verdict, words }) => `${verdict.padEnd(5)} ${what.padEnd(18)} ${words}`,
    ),
    healthy: findings.every(({ verdict }) => verdict !== "bad"),
  }
}

const VERSION_LIMIT_MS = 5000

/** Programs beside OpenCode that something is lost without, and how each is asked for its version. */
const extras: readonly (readonly [string, string])[] = [
  ["git", "--version"],
  ["rg", "--version"],
  ["bash", "--version"],
  ["node", "--version"],
  ["chromium", "--version"],
  ["ffmpeg", "-version"],
  ["whisper-cli", "--help"],
]
const versionFlags: Readonly<Record<string, string>> = {
  Xvfb: "-help",
  fluxbox: "-version",
  x11vnc: "-version",
  websockify: "--help",
}

const programs = async (config: Settings): Promise<readonly Finding[]> => {
  const path = config.environment["PATH"] ?? ""
  const services = servicesOf({
    display: config.display,
    workDir: config.workDir,
    ports: { vscode: 0, vnc: 0, rawVnc: 0, ttyd: 0 },
  })
  const wanted = (group: ServiceGroup) => config.services.includes(group)
  const watched = services
    .filter(({ group }) => wanted(group))
    .map(({ command: [program] }) => [program, versionFlags[program] ?? "--version"] as const)
  const others = await Promise.all(
    [...extras, ...watched].map(async ([program, flag]): Promise<Finding> => {
      const found = Bun.which(program, { PATH: path })
      if (found === null) return { what: program, verdict: "warn", words: "not installed" }
      return { what: program, verdict: "ok", words: `${found} ${await versionOf(found, flag)}` }
    }),
  )
  return [await opencode(config, path), ...others]
}

const opencode = async (config: Settings, path: string): Promise<Finding> => {
  try {
    const search = { opencodeBin: config.opencodeBin, path, self: process.execPath }
    const binary = findOpenCode(search)
    const words = `${binary} ${await versionOf(binary, "--version")}`
    return { what: "opencode", verdict: "ok", words }
  } catch (error) {
    return { what: "opencode", verdict: "bad", words: describeError(error) }
  }
}

const versionOf = async (program: string, flag: string): Promise<string> => {
  const { stdout, stderr } = await runCommand(program, [flag], {
    timeoutMs: VERSION_LIMIT_MS,
    env: { HOME: "/tmp", PATH: "/usr/local/bin:/usr/bin:/bin" },
  }).catch(() => ({ stdout: "", stderr: "" }))
  return versionIn(`${stdout}\n${stderr}`)
}

/** Some write a line or two of their log before they answer, and the time in it looks like a version. */
export const versionIn = (said: string): string => {
  const answer = said.replaceAll(/^\[.*$/gm, "")
  return /\d+\.\d+[\w.-]*|\bv\d+\S*/.exec(answer)?.[0] ?? ""
}

const LEAST_BYTES = 64 * 1024 * 1024
const COMFORTABLE_BYTES = 1024 * 1024 * 1024

const directories = ({ workDir, stateDir }: Settings): Promise<readonly Finding[]> =>
  Promise.all(
    [
      ["workspace", workDir],
      ["state directory", stateDir],
    ].map(async ([what = "", directory = ""]): Promise<Finding> => {
      try {
        await mkdir(directory, { recursive: true })
        const probe = join(directory, `.sandpiper-doctor-${process.pid}`)
        await writeFile(probe, "written by sandpiper doctor\n")
        await rm(probe)
        const { bavail, bsize } = await statfs(directory)
        const free = bavail * bsize
        const words = `${directory} is writable, ${(free / 1024 ** 3).toFixed(1)} GiB free`
        const verdict = free < LEAST_BYTES ? "bad" : free < COMFORTABLE_BYTES ? "warn" : "ok"
        return { what, verdict, words }
      } catch (error) {
        return { what, verdict: "bad", words: `${directory}: ${describeError(error)}` }
      }
    }),
  )

const ports = (config: Settings): readonly Finding[] =>
  [
    ["gateway", config.gatewayPort],
    ["opencode", Number(new URL(config.opencodeUrl).port)],
    ...(config.services.includes("vscode") ? [["code-server", config.vscodePort] as const] : []),
    ...(config.services.includes("vnc") ? [["noVNC", config.vncPort] as const] : []),
    ...(config.services.includes("ttyd") ? [["ttyd", config.ttydPort] as const] : []),
  ].flatMap(([name, port]): readonly Finding[] => {
    if (port === 0) return []
    const what = `port ${port}`
    if (!isTaken(Number(port))) return [{ what, verdict: "ok", words: `free, for ${name}` }]
    const holder = listenerOf(Number(port))
    // The agent's own processes are closed to a container's root.
    if (holder === undefined) {
      return [{ what, verdict: "ok", words: `for ${name}, held by a process of another user` }]
    }
    const command = commandOf(holder.pid)
    const ours = /sandpiper|opencode|code-server|websockify|ttyd/.test(command)
    const words = `for ${name}, held by pid ${holder.pid}: ${command}`
    return [{ what, verdict: ours ? "ok" : "bad", words }]
  })

const SKEW_MS = 60_000
const REACH_LIMIT_MS = 5000

/** Tokens carry times: a clock that is minutes off makes every one of them look too old or too new. */
const clock = async ({ doUrl }: Settings): Promise<readonly Finding[]> => {
  const what = "clock"
  const here = new Date().toISOString()
  if (doUrl === undefined) return [{ what, verdict: "ok", words: `${here}, compared with nothing` }]
  const reply = await reach(doUrl.replace(/^ws/, "http"))
  if (typeof reply === "string") {
    return [{ what: "session agent", verdict: "bad", words: `${doUrl}: ${reply}` }]
  }
  const found: Finding = { what: "session agent", verdict: "ok", words: "reachable" }
  const there = Date.parse(reply.headers.get("date") ?? "")
  if (Number.isNaN(there)) return [found, { what, verdict: "ok", words: here }]
  const skew = Date.now() - there
  const words = `${here}, ${Math.round(skew / 1000)} s from the session agent's`
  return [found, { what, verdict: Math.abs(skew) > SKEW_MS ? "bad" : "ok", words }]
}

const providers: Readonly<Record<string, string>> = {
  anthropic: "https://api.anthropic.com",
  openai: "https://api.openai.com",
  google: "https://generativelanguage.googleapis.com",
  openrouter: "https://openrouter.ai",
  groq: "https://api.groq.com",
  mistral: "https://api.mistral.ai",
  xai: "https://api.x.ai",
  deepseek: "https://api.deepseek.com",
}

const models = async (config: Settings): Promise<readonly Finding[]> => {
  const keyed = Object.keys(providerKeysOf(config.environment))
  if (keyed.length === 0) {
    const words = "no provider key is set: the session agent must send one"
    return [{ what: "model", verdict: "warn", words }]
  }
  return Promise.all(
    keyed.map(async (provider): Promise<Finding> => {
      const url = providers[provider] ?? ""
      const reply = await reach(url)
      // Any answer will do: what is asked here is the way there, not the key.
      if (typeof reply !== "string")
        return { what: "model", verdict: "ok", words: `${provider} answers at ${url}` }
      return { what: "model", verdict: "warn", words: `${provider} at ${url}: ${reply}` }
    }),
  )
}

const reach = async (url: string): Promise<Response | string> => {
  try {
    return await fetch(url, { method: "HEAD", signal: AbortSignal.timeout(REACH_LIMIT_MS) })
  } catch (error) {
    return describeError(error)
  }
}
