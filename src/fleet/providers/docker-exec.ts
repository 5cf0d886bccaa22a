/** Runs a command in a container. */
import { type Clock, sleep } from "../../lib/clock.ts"
import type { ProviderResult, SandboxCommandResult } from "./contract.ts"
import { inspectedExec, parsed, readOutput, withId } from "./docker-engine.ts"
import type { HttpApi } from "./http.ts"

const LONG_MS = 10 * 60_000
const POLL_MS = 20

export const runInContainer = async (
  { http, clock }: { readonly http: HttpApi; readonly clock: Clock },
  ref: string,
  argv: readonly string[],
  more: { readonly cwd?: string | undefined; readonly env?: readonly string[] },
  limit: AbortSignal,
): Promise<ProviderResult<SandboxCommandResult>> => {
  const made = await http.call(
    {
      method: "POST",
      path: `/containers/${encodeURIComponent(ref)}/exec`,
      json: {
        AttachStdout: true,
        AttachStderr: true,
        Cmd: argv,
        ...(more.env && { Env: more.env }),
        ...(more.cwd !== undefined && { WorkingDir: more.cwd }),
      },
      limit,
    },
    { read: parsed(withId) },
  )
  if (made.is !== "ok") return made
  const exec = `/exec/${encodeURIComponent(made.value.Id)}`
  const output = await http.call(
    {
      method: "POST",
      path: `${exec}/start`,
      json: { Detach: false, Tty: false },
      limit,
      deadlineMs: LONG_MS,
    },
    { read: ({ bytes }) => readOutput(bytes) },
  )
  if (output.is !== "ok") return output.is === "missing" ? { is: "unknown", why: exec } : output
  for (;;) {
    // The output ends a moment before the engine has recorded the exit code.
    const state = await http.call(
      { method: "GET", path: `${exec}/json`, limit },
      { read: parsed(inspectedExec) },
    )
    if (state.is !== "ok") return state.is === "missing" ? { is: "unknown", why: exec } : state
    const { Running, ExitCode } = state.value
    if (!Running && typeof ExitCode === "number")
      return { is: "ok", value: { exitCode: ExitCode, ...output.value } }
    if (limit.aborted) return { is: "unknown", why: "the command did not end in time" }
    await sleep(clock, POLL_MS, limit)
  }
}
