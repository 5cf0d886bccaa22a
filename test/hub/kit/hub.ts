/** A Bun host for a test: on loopback, with its own state directory; the test handles the runner's requests. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startHub } from "../../../src/hub/hosts/bun/bun-host.ts"
import type { Hub, HubOptions } from "../../../src/hub/hosts/bun/hub-options.ts"
import { hashOf } from "../../../src/hub/keys.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { freePort } from "../../kit/free-port.ts"
import { recordingLog } from "../../kit/log.ts"

export const CLIENT_TOKEN = "client-token-of-the-tests"
export const RUNNER_TOKEN = "runner-token-of-the-tests"

export interface TestHub {
  readonly hub: Hub
  readonly stateDir: string
  readonly log: string[]
  readonly stop: () => Promise<void>
}

export const startTestHub = async (
  options: Partial<HubOptions> = {},
  session: string | undefined = "s1",
): Promise<TestHub> => {
  const stateDir = options.stateDir ?? (await mkdtemp(join(tmpdir(), "hub-")))
  const log: string[] = []
  const hub = await startHub({
    port: freePort(),
    clock: systemClock,
    log: recordingLog(log),
    clientToken: CLIENT_TOKEN,
    answer: () => Promise.reject(new Error("this test expects no request")),
    workflowReported: () => {},
    decideExecution: () => Promise.reject(new Error("this test expects no decision")),
    ended: () => {},
    terminate: async () => {},
    hook: async () => new Response("", { status: 404 }),
    ...options,
    stateDir,
  })
  if (session !== undefined) hub.create(session).setRunnerToken(await hashOf(RUNNER_TOKEN))
  return {
    hub,
    stateDir,
    log,
    stop: async () => {
      await hub.stop()
      if (options.stateDir === undefined) await rm(stateDir, { recursive: true, force: true })
    },
  }
}
