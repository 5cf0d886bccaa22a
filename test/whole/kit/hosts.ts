/** The two hosts of the hub behind one shape, each with the sessions `main` and `other`. */
import { join } from "node:path"
import { startLocalHub } from "../../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../../hub/kit/hub.ts"
import { bundleWorker, startWorkerd } from "../../hub/kit/workerd.ts"
import { silentLog } from "../../kit/log.ts"
import { requireBinary, type Sandbox } from "../../kit/runner.ts"

export type HostName = "bun" | "workerd"

export interface HubHost {
  readonly url: string
  readonly clientToken: string
  readonly stop: () => Promise<void>
}

export interface HostOptions {
  readonly sandbox: Sandbox
  /** Variables of the hub: tokens and addresses of GitHub, Slack and Telegram. */
  readonly variables: Readonly<Record<string, string>>
}

export const hubHosts: Readonly<Record<HostName, (options: HostOptions) => Promise<HubHost>>> = {
  bun: async ({ sandbox, variables }) => {
    const hub = await startLocalHub({
      stateDir: join(sandbox.root, "hub-state"),
      workDir: sandbox.workDir,
      port: 0,
      environment: { ...sandbox.environment, ...variables },
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
      self: [requireBinary()],
    })
    await hub.resume()
    return { url: hub.url, clientToken: CLIENT_TOKEN, stop: hub.stop }
  },
  workerd: async ({ variables }) => startWorkerd(await bundleWorker(), variables),
}

/** Creates a session, or changes its title or config, as an operator of the hub does. */
export const putSession = async (
  { url, clientToken }: Pick<HubHost, "url" | "clientToken">,
  session: string,
  fields: object = {},
): Promise<void> => {
  const response = await fetch(`${url}/sessions/${session}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${clientToken}` },
    body: JSON.stringify({ runnerToken: RUNNER_TOKEN, ...fields }),
  })
  if (response.status !== 201) throw new Error(`PUT ${session}: ${await response.text()}`)
}
