/** The egress policy of the sandbox: the proxy, the packet filter, and the messages about what they refuse. */
import { freePort } from "../lib/free-port.ts"
import { parseJson } from "../lib/json.ts"
import { z } from "zod"
import { describeError, type Log } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"
import type { OutboundFrame } from "../wire/frames/index.ts"
import { closeFor, type Enforcement, firewallProblem, reopenFor } from "./host/egress-firewall.ts"
import { type EgressProxy, startEgressProxy } from "./host/egress-proxy.ts"
import { proxyVariables, refusalNotice } from "./host/egress-rules.ts"
import type { User } from "./host/users.ts"

export interface EgressOptions {
  readonly config: Settings
  readonly user: User | undefined
  readonly bootId: string
  readonly memory: {
    readonly read: () => string | undefined
    readonly write: (text: string) => void
  }
  readonly send: (frame: OutboundFrame) => void
  readonly log: Log
}

export interface Egress {
  /** What programs of the agent need to use the proxy; empty without a policy. */
  readonly variables: Readonly<Record<string, string>>
  /** Before the first program of the agent starts. */
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

const stored = z.object({ boot: z.string(), port: z.int(), uid: z.int().optional() })

export const joinEgress = (options: EgressOptions): Egress => {
  const { config, user, log } = options
  const before = stored.safeParse(parseJson(options.memory.read() ?? "")).data
  const ports = config.closedPorts

  const close = async (hasPolicy: boolean): Promise<Enforcement> => {
    const problem = firewallProblem(process.getuid?.() === 0, user !== undefined)
    return problem === undefined && user
      ? closeFor(user.uid, { hasPolicy, ports })
      : { enforced: false, why: problem ?? "" }
  }

  if (config.egress === "open")
    return {
      variables: {},
      start: async () => {
        if (ports.length > 0) {
          const result = await close(false)
          if (result.enforced) log.info("egress.ports-closed", { ports })
          else log.warn("egress.ports-not-closed", { ports, why: result.why })
          return
        }
        if (before?.uid === undefined) return
        await reopenFor(before.uid)
        options.memory.write("{}")
      },
      stop: async () => {},
    }
  // OpenCode outlives a killed runner and knows the port from its start.
  const port = before !== undefined && before.boot === options.bootId ? before.port : freePort()
  options.memory.write(JSON.stringify({ boot: options.bootId, port, uid: user?.uid }))
  const hosts = [...config.egressHosts, ...config.repositories.flatMap(({ url }) => hostOf(url))]
  const refused = new Set<string>()
  let proxy: EgressProxy | undefined

  const onRefused = (host: string, hostPort: number): void => {
    log.warn("egress.refused", { host, port: hostPort })
    const content = refusalNotice(refused, host, hostPort)
    if (refused.size < MOST_REMEMBERED) refused.add(host)
    if (content !== undefined)
      options.send({ type: "workflow-chat-message", role: "system", content })
  }

  const enforce = async (): Promise<void> => {
    if (config.egressBoundary) return log.info("egress.enforced", { by: "the sandbox's network" })
    const result = await close(true)
    if (result.enforced) log.info("egress.enforced", { user: user?.name })
    else log.warn("egress.not-enforced", { why: result.why })
  }

  return {
    variables: proxyVariables(`http://127.0.0.1:${port}`),
    start: async () => {
      await enforce()
      try {
        proxy = await startEgressProxy({ port, hosts, via: machineProxy(config), onRefused })
        log.info("egress.allow-list", { hosts: hosts.length, port })
      } catch (error) {
        // The agent then reaches no host, which is the safe side.
        log.error("egress.no-proxy", { port, error: describeError(error) })
      }
    },
    stop: async () => proxy?.stop(),
  }
}

const MOST_REMEMBERED = 1000

const hostOf = (url: string): readonly string[] =>
  URL.canParse(url) && new URL(url).hostname !== "" ? [new URL(url).host] : []

const machineProxy = ({ environment }: Settings): URL | undefined => {
  const given = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
  const url = given.map((name) => environment[name]).find((value) => value)
  return url !== undefined && /^http:\/\//i.test(url) && URL.canParse(url)
    ? new URL(url)
    : undefined
}
