/** Runs a command in a local sandbox and collects its output, up to a limit. */
import type { ProviderResult, SandboxCommandResult } from "./contract.ts"
import { killTree } from "./local-processes.ts"

const MAX_OUTPUT = 1024 * 1024

export const execLocally = async (options: {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly input?: string
  readonly limit: AbortSignal
}): Promise<ProviderResult<SandboxCommandResult>> => {
  const { limit, input } = options
  const child = Bun.spawn([...options.argv], {
    cwd: options.cwd,
    env: options.environment,
    stdin: input === undefined ? "ignore" : new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
    killSignal: "SIGKILL",
    maxBuffer: MAX_OUTPUT,
  })
  // A program that has entered a sandbox is a child of the one that was started here.
  const late = Promise.withResolvers<undefined>()
  const end = () => {
    killTree(child.pid)
    late.resolve(undefined)
  }
  limit.addEventListener("abort", end)
  if (limit.aborted) end()
  const done = Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  // A process that the command has left behind may hold its output open for any time.
  const result = await Promise.race([done, late.promise])
  limit.removeEventListener("abort", end)
  if (limit.aborted || result === undefined) {
    done.catch(() => {})
    return { is: "unknown", why: "the command did not end in time" }
  }
  const [exitCode, stdout, stderr] = result
  return { is: "ok", value: { exitCode, stdout, stderr } }
}
