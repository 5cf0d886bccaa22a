/** The whole session agent of one machine for a test, with a fake runner on its first session. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { hashOf } from "../../../src/hub/keys.ts"
import { type LocalHub, type LocalHubOptions, startLocalHub } from "../../../src/hub/local-hub.ts"
import { type Clock, systemClock } from "../../../src/lib/clock.ts"
import { type FakeRunner, startFakeRunner } from "./fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "./hub.ts"
import { silentLog } from "../../kit/log.ts"

export interface TestLocalHub {
  readonly hub: LocalHub
  readonly runner: FakeRunner
  readonly folder: string
  readonly stop: () => Promise<void>
}

export const startTestLocalHub = async (
  options: Partial<LocalHubOptions> & { readonly clock?: Clock } = {},
): Promise<TestLocalHub> => {
  const folder = await mkdtemp(join(tmpdir(), "local-hub-"))
  const hub = await startLocalHub({
    stateDir: join(folder, "state"),
    workDir: folder,
    port: 0,
    environment: { PATH: "/usr/bin:/bin" },
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
    ...options,
  })
  hub.create("s1").setRunnerToken(await hashOf(RUNNER_TOKEN))
  await hub.resume()
  const runner = startFakeRunner({
    url: hub.runnerUrl("s1"),
    token: RUNNER_TOKEN,
    stateDir: join(folder, "runner"),
    answer: ({ content }) => [content],
    eager: true,
  })
  return {
    hub,
    runner,
    folder,
    stop: async () => {
      await runner.stop()
      await hub.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
