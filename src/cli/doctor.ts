/** `sandpiper doctor`: checks this machine, one line per finding. The exit code is 1 if a finding prevents a start. */
import { statfs } from "node:fs/promises"
import { userInfo } from "node:os"
import { findOpenCode } from "../runner/opencode/launch/binaries.ts"
import type { Settings } from "../settings/settings.ts"
import { commandOf, isTaken, listenerOf } from "../runner/host/processes.ts"
import { chooseAgentUser } from "../runner/host/users.ts"
import { type ServiceGroup, servicesOf } from "../runner/host/service-table.ts"
import { describeError } from "../lib/log.ts"
import { type Command, print } from "./command.ts"
import { writableAncestor } from "./directory-check.ts"
import { runCommand } from "../lib/run-command.ts"
import { egressFinding } from "./doctor-egress.ts"
import { modelFindings } from "./doctor-models.ts"
import { sandboxFindings } from "./doctor-sandboxes.ts"

/** `bad` prevents the runner from working; `warn` disables a feature. */
export type Verdict = "ok" | "warn" | "bad"

export interface Finding {
  readonly what: string
  readonly verdict: Verdict
  readonly text: string
}

export interface Examination {
  readonly lines: readonly string[]
  readonly healthy: boolean
}

export const doctor: Command = async ({ settings }) => {
  const { lines, healthy } = await examine(settings)
  print(`${lines.join("\n")}\n`)
  return healthy ? 0 : 1
}

export const examine = async (
  settings: Settings,
  versionLimitMs = VERSION_LIMIT_MS,
): Promise<Examination> => {
  const checks = [
    programs(settings, versionLimitMs),
    directories(settings),
    clock(settings),
    modelFindings(settings),
    sandboxFindings(settings),
  ]
  const findings = [
    ...(await Promise.all(checks)).flat(),
    agentUser(settings),
    ...egressFinding(settings),
    ...ports(settings),
  ]
  return {
    lines: findings.map(
      ({ what, verdict, text }) => `${verdict.padEnd(5)} ${what.padEnd(18)} ${text}`,
    ),
    healthy: findings.every(({ verdict }) => verdict !== "bad"),
  }
}

/** How long a program may take to print its version. OpenCode takes seconds on a busy machine. */
const VERSION_LIMIT_MS = 10_000

/** Programs beside OpenCode that features depend on, with the flag that prints their version. */
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

const programs = async (settings: Settings, limitMs: number): Promise<readonly Finding[]> => {
  const path = settings.environment["PATH"] ?? ""
  const services = servicesOf({
    display: settings.display,
    workDir: settings.workDir,
    ports: { vscode: 0, vnc: 0, rawVnc: 0, ttyd: 0 },
  })
  const isRequested = (group: ServiceGroup) => settings.services.includes(group)
  const requested = services
    .filter(({ group }) => isRequested(group))
    .map(({ command: [program] }) => [program, versionFlags[program] ?? "--version"] as const)
  const others = await Promise.all(
    [...extras, ...requested].map(async ([program, flag]): Promise<Finding> => {
      const found = Bun.which(program, { PATH: path })
      if (found === null) return { what: program, verdict: "warn", text: "not installed" }
      return { what: program, ...(await versionFinding(found, flag, limitMs)) }
    }),
  )
  return [await opencode(settings, path, limitMs), ...others]
}

const opencode = async (settings: Settings, path: string, limitMs: number): Promise<Finding> => {
  try {
    const search = { opencodeBin: settings.opencodeBin, path, self: process.execPath }
    const binary = findOpenCode(search)
    return { what: "opencode", ...(await versionFinding(binary, "--version", limitMs)) }
  } catch (error) {
    return { what: "opencode", verdict: "bad", text: describeError(error) }
  }
}

const versionFinding = async (
  program: string,
  flag: string,
  limitMs: number,
): Promise<Pick<Finding, "verdict" | "text">> => {
  const { stdout, stderr, timedOut } = await runCommand(program, [flag], {
    timeoutMs: limitMs,
    env: { HOME: "/tmp", PATH: "/usr/local/bin:/usr/bin:/bin" },
  }).catch(() => ({ stdout: "", stderr: "", timedOut: false }))
  if (timedOut)
    return { verdict: "warn", text: `${program}: no answer to ${flag} within ${limitMs / 1000} s` }
  return { verdict: "ok", text: `${program} ${versionIn(`${stdout}\n${stderr}`)}` }
}

/** Some programs print log lines first, and the time in such a line looks like a version. */
export const versionIn = (output: string): string => {
  const withoutLog = output.replaceAll(/^\[.*$/gm, "")
  return /\d+\.\d+[\w.-]*|\bv\d+\S*/.exec(withoutLog)?.[0] ?? ""
}

/** An agent that is root can read everything of the runner; one that is the runner's own user, the files of its state. */
const agentUser = ({ agentUser: name }: Settings): Finding => {
  const what = "agent's user"
  try {
    const isRoot = process.getuid?.() === 0
    const user = chooseAgentUser(name, isRoot)
    if (user) return { what, verdict: "ok", text: user.name }
    const own = userInfo().username
    const readable = isRoot ? "secrets" : "state directory"
    const text = `${own}, like the runner: the agent can read the runner's ${readable}; create a user and set AGENT_USER to its name`
    return { what, verdict: "warn", text }
  } catch (error) {
    return { what, verdict: "bad", text: describeError(error) }
  }
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
        const existing = await writableAncestor(directory)
        const { bavail, bsize } = await statfs(existing)
        const free = bavail * bsize
        const state = existing === directory ? "is writable" : `can be created in ${existing}`
        const text = `${directory} ${state}, ${(free / 1024 ** 3).toFixed(1)} GiB free`
        const verdict = free < LEAST_BYTES ? "bad" : free < COMFORTABLE_BYTES ? "warn" : "ok"
        return { what, verdict, text }
      } catch (error) {
        return { what, verdict: "bad", text: `${directory}: ${describeError(error)}` }
      }
    }),
  )

const ports = (settings: Settings): readonly Finding[] =>
  [
    ["gateway", settings.gatewayPort],
    ["opencode", Number(new URL(settings.opencodeUrl).port)],
    ...(settings.services.includes("vscode")
      ? [["code-server", settings.vscodePort] as const]
      : []),
    ...(settings.services.includes("vnc") ? [["noVNC", settings.vncPort] as const] : []),
    ...(settings.services.includes("ttyd") ? [["ttyd", settings.ttydPort] as const] : []),
  ].flatMap(([name, port]): readonly Finding[] => {
    if (port === 0) return []
    const what = `port ${port}`
    if (!isTaken(Number(port))) return [{ what, verdict: "ok", text: `free, for ${name}` }]
    const holder = listenerOf(Number(port))
    // In a container, root cannot inspect the processes of the agent's user.
    if (holder === undefined) {
      return [{ what, verdict: "ok", text: `for ${name}, held by a process of another user` }]
    }
    const command = commandOf(holder.pid)
    const ours = /sandpiper|opencode|code-server|websockify|ttyd/.test(command)
    const text = `for ${name}, held by pid ${holder.pid}: ${command}`
    return [{ what, verdict: ours ? "ok" : "bad", text }]
  })

const SKEW_MS = 60_000
const REACH_LIMIT_MS = 5000

/** Tokens contain times: with a clock that is minutes off they are all rejected as expired or not yet valid. */
const clock = async ({ doUrl }: Settings): Promise<readonly Finding[]> => {
  const what = "clock"
  const here = new Date().toISOString()
  if (doUrl === undefined)
    return [{ what, verdict: "ok", text: `${here}, not compared (DO_WS_URL is not set)` }]
  const reply = await reach(doUrl.replace(/^ws/, "http"))
  if (typeof reply === "string") {
    return [{ what: "session agent", verdict: "bad", text: `${doUrl}: ${reply}` }]
  }
  const found: Finding = { what: "session agent", verdict: "ok", text: "reachable" }
  const there = Date.parse(reply.headers.get("date") ?? "")
  if (Number.isNaN(there)) return [found, { what, verdict: "ok", text: here }]
  const skew = Date.now() - there
  const text = `${here}, ${Math.round(skew / 1000)} s from the session agent's`
  return [found, { what, verdict: Math.abs(skew) > SKEW_MS ? "bad" : "ok", text }]
}

const reach = async (url: string): Promise<Response | string> => {
  try {
    return await fetch(url, { method: "HEAD", signal: AbortSignal.timeout(REACH_LIMIT_MS) })
  } catch (error) {
    return describeError(error)
  }
}
