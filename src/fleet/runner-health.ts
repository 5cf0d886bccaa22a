/** Asks the runner of a sandbox whether it is alive, at the gateway of the sandbox. Its link to the hub is another way. */
import { sleep, systemClock } from "../lib/clock.ts"
import { GATEWAY_PORT } from "./core/names.ts"
import type { RunnerHealth } from "./core/life.ts"
import type { SandboxProvider } from "./providers/contract.ts"

const ATTEMPTS = 3
const WAIT_MS = 1000
const ANSWER_MS = 5000

/** The address is fresh: that of before may belong to another sandbox. */
const askOnce = async (provider: SandboxProvider, ref: string): Promise<RunnerHealth> => {
  const address = await provider.address(ref, GATEWAY_PORT)
  if (address.is === "refused") return "none"
  if (address.is !== "ok") return "unknown"
  const { url, headers } = address.value
  try {
    const answer = await fetch(`${url.replace(/\/$/, "")}/health`, {
      headers,
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    await answer.body?.cancel()
    return answer.status === 200 ? "ok" : "none"
  } catch {
    return "none"
  }
}

/** One lost request is not yet a dead runner. */
export const runnerHealth = async (
  provider: SandboxProvider,
  ref: string,
): Promise<RunnerHealth> => {
  for (let attempt = 1; ; attempt += 1) {
    const health = await askOnce(provider, ref)
    if (health !== "none" || attempt === ATTEMPTS) return health
    await sleep(systemClock, WAIT_MS)
  }
}
