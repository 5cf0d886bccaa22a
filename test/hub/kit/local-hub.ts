/** The complete session agent of one machine for a test, with a fake runner on its first session. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { hashOf } from "../../../src/hub/keys.ts"
import {
  type LocalHub,
  type LocalHubOptions,
  startLocalHub,
} from "../../../src/hub/hosts/bun/local-hub.ts"
import { type Clock, systemClock } from "../../../src/lib/clock.ts"
import { type FakeRunner, startFakeRunner } from "./fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "./hub.ts"
import { freePort } from "../../kit/free-port.ts"
import { silentLog } from "../../kit/log.ts"
import type { ScriptedModel } from "../../kit/model.ts"
import { type Sandbox, scriptedConfig } from "../../kit/runner.ts"

export interface TestLocalHub {
  readonly hub: LocalHub
  readonly runner: FakeRunner
  readonly folder: string
  readonly stop: () => Promise<void>
}

const startHubIn = (
  folders: Pick<LocalHubOptions, "stateDir" | "workDir" | "environment">,
  options: Partial<LocalHubOptions>,
): Promise<LocalHub> =>
  startLocalHub({
    ...folders,
    port: freePort(),
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
    ...options,
  })

/** Beside a sandbox, with one session configured for the scripted model. The test starts its runner. */
export const startHubBeside = async (
  { root, workDir, environment }: Sandbox,
  session: string,
  model: ScriptedModel,
  options: Partial<LocalHubOptions> = {},
): Promise<LocalHub> => {
  const hub = await startHubIn({ stateDir: join(root, "hub"), workDir, environment }, options)
  const made = hub.create(session)
  made.configure(scriptedConfig(model))
  made.setRunnerToken(await hashOf(RUNNER_TOKEN))
  return hub
}

export const startTestLocalHub = async (
  options: Partial<LocalHubOptions> & { readonly clock?: Clock } = {},
): Promise<TestLocalHub> => {
  const folder = await mkdtemp(join(tmpdir(), "local-hub-"))
  const environment = { PATH: "/usr/bin:/bin" }
  const hub = await startHubIn(
    { stateDir: join(folder, "state"), workDir: folder, environment },
    options,
  )
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
