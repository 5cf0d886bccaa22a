/** The compiled runner in a process of its own, what it logs about its link, and when it is back after a restart of its hub. */
import { requireBinary, type Sandbox } from "./runner.ts"
import { untilTrue } from "./until-true.ts"

export interface BinaryRunner {
  /** The waits between its attempts to connect, in milliseconds. */
  readonly waits: () => readonly number[]
  /** How often it has been connected. */
  readonly connections: () => number
  readonly stop: () => Promise<void>
}

export const startBinaryRunner = (
  { environment, workDir }: Sandbox,
  extra: Record<string, string> = {},
): BinaryRunner => {
  const child = Bun.spawn([requireBinary(), "run"], {
    cwd: workDir,
    env: { ...environment, LOG_LEVEL: "debug", ...extra },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  let log = ""
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const bytes of stream) log += decoder.decode(bytes, { stream: true })
  }
  void collect(child.stdout)
  void collect(child.stderr)
  return {
    waits: () => [...log.matchAll(/"link\.down".*"retryInMs":(\d+)/g)].map(([, ms]) => Number(ms)),
    connections: () => log.split('"event":"link.open"').length - 1,
    stop: async () => {
      child.kill()
      await child.exited
    },
  }
}

interface HubAddress {
  readonly url: string
  readonly clientToken: string
  readonly session: string
}

/** Resolves as soon as the hub answers. */
export const hubAnswers = ({ url }: Pick<HubAddress, "url">): Promise<void> =>
  untilTrue(async () => {
    const response = await fetch(url, { signal: AbortSignal.timeout(1000) }).catch(() => undefined)
    await response?.body?.cancel()
    return response !== undefined
  }, "an answer of the hub")

/** Resolves when the runner has been connected `times`, and the hub says that it is. */
export const isConnected = (
  runner: BinaryRunner,
  times: number,
  { url, clientToken, session }: HubAddress,
): Promise<void> =>
  untilTrue(async () => {
    if (runner.connections() < times) return false
    const response = await fetch(`${url}/sessions/${session}`, {
      headers: { Authorization: `Bearer ${clientToken}` },
      signal: AbortSignal.timeout(5000),
    }).catch(() => undefined)
    if (!response?.ok) return false
    const { state } = (await response.json()) as { state: { runner?: { connected: boolean } } }
    return state.runner?.connected === true
  }, `connection ${times} of the runner`)
