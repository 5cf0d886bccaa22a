/** The two hosts of the hub behind one shape, each with the sessions `main` and `other`. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { LOCAL_OWNER } from "../../../src/hub/access/ownership.ts"
import { startLocalHub } from "../../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../../hub/kit/hub.ts"
import { freePort } from "../../kit/free-port.ts"
import { bundleWorker, startWorkerd } from "../../hub/kit/workerd.ts"
import { silentLog } from "../../kit/log.ts"
import { requireBinary, type Sandbox } from "../../kit/runner.ts"
import { untilTrue } from "../../kit/until-true.ts"

export type HostName = "bun" | "workerd"

/**
 * For requests to a hub: workerd closes a connection that was idle for some seconds, also while a request is on its way over it.
 */
export const OWN_CONNECTION = { keepalive: false } as const

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
  workerd: async ({ sandbox, variables }) => {
    const port = freePort()
    const workerd = await startWorkerd(await bundleWorker(), {
      ...variables,
      FLEET_URL: `http://127.0.0.1:${port}`,
      FLEET_KEY,
      HUB_GATEWAY_SECRET: "a gateway secret of the tests",
    })
    const fleet = await startFleetProcess(sandbox, { url: workerd.url, port })
    return {
      url: workerd.url,
      clientToken: workerd.clientToken,
      stop: async () => {
        await fleet.stop()
        await workerd.stop()
      },
    }
  },
}

const FLEET_KEY = "a key of the fleet for tests only"

/** The compiled `serve` as the fleet of a hub elsewhere. Its sandboxes are ended before it is stopped. */
const startFleetProcess = async (
  sandbox: Sandbox,
  hub: { readonly url: string; readonly port: number },
) => {
  const stateDir = join(sandbox.root, "fleet-state")
  const child = Bun.spawn([requireBinary(), "serve", "--state-dir", stateDir], {
    cwd: sandbox.root,
    env: {
      ...sandbox.environment,
      SANDBOX_PROVIDER: "local",
      SANDBOX_ISOLATION: "none",
      HUB_URL: hub.url,
      HUB_PORT: String(hub.port),
      FLEET_KEY,
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: Bun.file(join(sandbox.root, "fleet.log")),
  })
  const url = `http://127.0.0.1:${hub.port}`
  const healthy = () =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  await untilTrue(healthy, "start of the fleet")
  const call = async (method: string, path: string) => {
    const token = readFileSync(join(stateDir, "fleet", "operator-token"), "utf8")
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
    })
    return response.json()
  }
  return {
    stop: async () => {
      const { sandboxes } = (await call("GET", "/api/sandboxes")) as {
        sandboxes: readonly { readonly sessionId: string }[]
      }
      for (const { sessionId } of sandboxes)
        await call("POST", `/api/sandbox/${sessionId}/terminate?wait=1`)
      child.kill("SIGTERM")
      await child.exited
    },
  }
}

/**
 * Raises the limit of prompts per minute of the owner of all sessions. The default of 60 is for people: these tests send more in
 * a minute on a fast machine.
 */
export const liftPromptLimit = async ({
  url,
  clientToken,
}: Pick<HubHost, "url" | "clientToken">): Promise<void> => {
  const response = await fetch(`${url}/owners/${encodeURIComponent(LOCAL_OWNER)}/budget`, {
    method: "PUT",
    ...OWN_CONNECTION,
    headers: { authorization: `Bearer ${clientToken}` },
    body: JSON.stringify({ promptsPerMinute: 1_000_000 }),
  })
  if (!response.ok) throw new Error(`PUT budget: ${await response.text()}`)
}

/** Creates a session, or changes its title or config, as an operator of the hub does. */
export const putSession = async (
  { url, clientToken }: Pick<HubHost, "url" | "clientToken">,
  session: string,
  fields: object = {},
): Promise<void> => {
  const response = await fetch(`${url}/sessions/${session}`, {
    method: "PUT",
    ...OWN_CONNECTION,
    headers: { authorization: `Bearer ${clientToken}` },
    body: JSON.stringify({ runnerToken: RUNNER_TOKEN, ...fields }),
  })
  if (response.status !== 201) throw new Error(`PUT ${session}: ${await response.text()}`)
}
