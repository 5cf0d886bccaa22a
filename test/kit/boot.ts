/** Starts a sandbox as its image does: start.sh as PID 1 of a PID namespace, which executes the compiled binary. */
import { mkdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { SignJWT } from "jose"
import { binaryPath, repositoryRoot, requireBinary, type Sandbox } from "./runner.ts"
import { untilFound, WAIT_MS } from "./until-true.ts"

export interface Booted {
  readonly child: Bun.Subprocess
  readonly log: () => Promise<string>
  /** Resolves with the gateway's port once it listens. */
  readonly port: () => Promise<number>
  /** The runner's pid outside its namespace; inside the namespace it is 1. */
  readonly pid: () => number
  /** Runs a command in the sandbox and resolves with its standard output. */
  readonly inside: (...command: readonly string[]) => Promise<string>
  /** The body of /ready: the state of every component. */
  readonly ready: () => Promise<Readiness>
  readonly until: <Value>(
    find: () => Value | Promise<Value>,
    what: string,
    limitMs?: number,
  ) => Promise<Exclude<Value, undefined | null | false | "" | 0>>
  /** Sends SIGTERM to the runner; resolves with its exit code and the duration of the shutdown. */
  readonly stop: () => Promise<{ readonly code: number; readonly ms: number }>
}

export interface Readiness {
  readonly ready: boolean
  readonly parts: Readonly<
    Record<string, { readonly state: string; readonly why?: string; readonly restarts?: number }>
  >
}

/** Tests of PID 1 need a PID namespace, which only root may create. */
export const requireRoot = (): void => {
  if (process.getuid?.() === 0) return
  throw new Error(
    "this test makes a PID namespace and must run as root (in CI: as root in a container)",
  )
}

export interface BootOptions {
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** `plain`: without a PID namespace. */
  readonly as?: "pid1" | "plain"
}

export const boot = (sandbox: Sandbox, options: BootOptions = {}): Booted => {
  requireBinary()
  const { args = [], env = {}, as = "pid1" } = options
  if (as === "pid1") requireRoot()
  const environment: Record<string, string> = {
    ...sandbox.environment,
    SANDPIPER_SERVICES: "none",
    // This machine has no user `agent`.
    AGENT_USER: "root",
    PATH: `${programsOf(sandbox)}:${sandbox.environment["PATH"]}`,
    ...env,
  }
  const logFile = join(sandbox.root, `boot-${crypto.randomUUID()}.log`)
  const script = ["bash", join(repositoryRoot, "start.sh"), ...args]
  const namespace = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
  const child = Bun.spawn(as === "pid1" ? [...namespace, ...script] : script, {
    cwd: sandbox.root,
    env: environment,
    stdin: "ignore",
    stdout: Bun.file(logFile),
    stderr: Bun.file(logFile),
  })
  const log = () => Bun.file(logFile).text()
  const pid = (): number => {
    if (as === "plain") return child.pid
    const found = Bun.spawnSync(["pgrep", "-P", String(child.pid)]).stdout.toString()
    return Number(found.split("\n")[0])
  }
  const until: Booted["until"] = async (find, what, limitMs = WAIT_MS) => {
    let last = ""
    return untilFound(
      async () => {
        const hasEnded = child.exitCode !== null
        const found = await find()
        last = found ? "" : await log()
        if (!found && hasEnded) throw new Error(`ended before ${what}:\n${last}`)
        return found
      },
      () => `${what}:\n${last}\n`,
      limitMs,
    )
  }
  const port = () =>
    until(
      async () => Number(/"daemon.started","gatewayPort":(\d+)/.exec(await log())?.[1] ?? 0),
      "gateway",
    )
  return {
    child,
    log,
    port,
    pid,
    until,
    inside: async (...command) => {
      const enter = ["nsenter", "--target", String(pid()), "--pid", "--mount"]
      const run = Bun.spawn([...(as === "pid1" ? enter : []), ...command], {
        env: { ...environment },
        stdout: "pipe",
        stderr: "pipe",
      })
      const [out] = await Promise.all([new Response(run.stdout).text(), run.exited])
      return out
    },
    ready: async () => {
      const token = await new SignJWT({ sid: environment["SESSION_ID"] })
        .setProtectedHeader({ alg: "HS256" })
        .setSubject("the test")
        .setExpirationTime("5m")
        .sign(new TextEncoder().encode(environment["JWT_SECRET"]))
      const response = await fetch(`http://127.0.0.1:${await port()}/ready`, {
        headers: { authorization: `Bearer ${token}` },
      })
      return (await response.json()) as Readiness
    },
    stop: async () => {
      const started = Date.now()
      process.kill(pid(), "SIGTERM")
      return { code: await child.exited, ms: Date.now() - started }
    },
  }
}

/** A directory for the sandbox's PATH that contains the binary; a test may add its own programs. */
export const programsOf = (sandbox: Sandbox): string => {
  const folder = join(sandbox.root, "bin")
  mkdirSync(folder, { recursive: true })
  try {
    symlinkSync(binaryPath, join(folder, "sandpiper"))
  } catch {
    // The link exists from an earlier boot of the same sandbox.
  }
  return folder
}
