/** Runs a command in a local sandbox and collects its output, up to a limit. */
import type { ProviderResult, SandboxCommandResult } from "./contract.ts"

const MAX_OUTPUT = 1024 * 1024

export const runCommand = async (options: {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly limit: AbortSignal
}): Promise<ProviderResult<SandboxCommandResult>> => {
  const child = Bun.spawn([...options.argv], {
    cwd: options.cwd,
    env: options.environment,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    signal: options.limit,
    killSignal: "SIGKILL",
    maxBuffer: MAX_OUTPUT,
  })
  const [exitCode, stdout, stderr] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if (options.limit.aborted) return { is: "unknown", why: "the command did not end in time" }
  return { is: "ok", value: { exitCode, stdout, stderr } }
}
