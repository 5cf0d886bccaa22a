/** Joins the agent: OpenCode, the key broker beside it, and the configuration that the session agent sends. */
import type { Database } from "bun:sqlite"
import manifest from "../../package.json"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { factOf } from "../lib/state-db.ts"
import type { Settings } from "../settings/settings.ts"
import { toolsOffIn } from "../wire/operations/tool-sets.ts"
import { createApplyConfig } from "./apply-config.ts"
import { BROKER_FACT, createBrokerSupervisor } from "./broker/broker-supervisor.ts"
import { createOwnBroker } from "./broker/own-broker.ts"
import { PARALLEL, type Service } from "./broker/services.ts"
import type { Channels } from "./channels/channels.ts"
import type { LinkMetrics } from "./gateway/link-metrics.ts"
import { controlVariables } from "./host/control-socket.ts"
import { agentShellOf, writeAgentShell } from "./host/agent-shell.ts"
import { readBootId } from "./host/boot-id.ts"
import type { Host } from "./host/host.ts"
import { createProcesses } from "./host/processes.ts"
import { giveTo, handOver, type User } from "./host/users.ts"
import type { Link } from "./link/link.ts"
import { createAgent } from "./opencode/agent.ts"
import type { Endpoint } from "./opencode/config/endpoints.ts"
import type { WatchOptions } from "./opencode/launch/hang-detector.ts"
import type { GitIdentities } from "./prompt/git-identity.ts"
import type { Readiness } from "./readiness.ts"
import { openSavedConfig, SAVED_CONFIG_FACT } from "./saved-config.ts"
import { missingNeeds } from "./tool-needs.ts"

export interface JoinAgentOptions {
  readonly config: Settings
  readonly current: () => Settings
  readonly db: Database
  readonly version: string
  readonly self: readonly string[]
  readonly user: User | undefined
  readonly workDir: string
  readonly apiToken: string
  readonly gatewayPort: () => number
  /** The variables from which the agent's environment is taken. */
  readonly variables: Readonly<Record<string, string | undefined>>
  readonly endpoints: readonly Endpoint[] | undefined
  readonly watch: Pick<WatchOptions, "everyMs" | "misses"> | undefined
  readonly channels: Channels
  readonly readiness: Readiness
  readonly link: Link
  readonly linkMetrics: LinkMetrics
  readonly host: Host
  readonly gitIdentities: GitIdentities
  /** OpenCode is ready; called after each start of it. */
  readonly onReady: () => void
  readonly clock: Clock
  readonly log: Log
}

/** The pinned OpenCode version: files prepared for OpenCode must name exactly this version. */
const OPENCODE_VERSION = manifest.dependencies["opencode-ai"]

/** Facts of the agent that contain secrets: they are not in a snapshot. */
export const secretAgentFacts: readonly string[] = [SAVED_CONFIG_FACT, BROKER_FACT]

export const joinAgent = (options: JoinAgentOptions) => {
  const { config, current, db, self, user, workDir, channels, readiness, link, host } = options
  const { clock, log } = options
  /** Of prompts that name none; known when OpenCode is ready. */
  let model: string | undefined
  const toolsOff = toolsOffIn(config.toolSet ?? "all", missingNeeds(config))
  const brokerLog = log.child({ component: "broker" })
  const broker =
    process.pid === 1 && process.getuid?.() !== 0
      ? createOwnBroker({ log: brokerLog })
      : createBrokerSupervisor({
          self,
          stateDir: config.stateDir,
          bootId: readBootId(),
          version: options.version,
          secret: config.runnerToken,
          memory: factOf(db, BROKER_FACT),
          environment: config.environment,
          leaseSeconds: config.orphanSeconds,
          clock,
          log: brokerLog,
        })
  const shell = agentShellOf(config)
  const agent = createAgent({
    settings: { ...config, environment: options.variables, workDir },
    broker: () => broker.address,
    setUpstreams: (models, services) =>
      broker.setUpstreams(models, { ...services, ...parallelService(current()) }),
    opencodeVersion: OPENCODE_VERSION,
    self: process.execPath,
    toolEnvironment: () => ({
      SANDPIPER_URL: `http://127.0.0.1:${options.gatewayPort()}`,
      ...controlVariables(config.stateDir, options.apiToken),
      ...(config.diskFile !== undefined && { SANDBOX_DISK_FILE: config.diskFile }),
      ...toolVariables(current(), broker.address),
    }),
    endpoints: options.endpoints,
    hiddenTools: toolsOff.impossible,
    unusedTools: toolsOff.optional,
    instructionFiles: [host.personaFiles],
    shell,
    processes: createProcesses(clock),
    installExtraFiles: async (configDir) => {
      if (shell !== undefined) await writeAgentShell(shell)
      await host.prepared()
      await options.gitIdentities.installPlugin(configDir)
    },
    workDirReady: host.directoryReady,
    user,
    giveToUser: async (path) => user && giveTo(path, user),
    giveWorkDirToUser: async (path) => user && handOver(path, user),
    savedConfig: openSavedConfig(db, () => current().runnerToken, log),
    onEvent: channels.agentEvent,
    onStreamGap: () => {
      options.linkMetrics.onEventStreamLost()
      channels.streamGap()
    },
    onFirstEvent: channels.streamGap,
    backpressure: link.room,
    onReady: ({ client, url, models, defaultModel, mayStartTurns }) => {
      model = defaultModel
      channels.agentReady({ client, defaultModel, models }, mayStartTurns)
      readiness.agentReady(
        url,
        models.map((provider) => ({
          ...provider,
          models: provider.models.map(({ inputs, ...row }) => ({
            ...row,
            ...(inputs && { inputs: [...inputs] }),
          })),
        })),
        defaultModel,
      )
      options.onReady()
    },
    onLost: (why) => {
      readiness.agentLost(why)
      channels.agentLost(why)
    },
    onFatal: readiness.agentFailed,
    pauseTurns: channels.pauseTurns,
    resumeTurns: channels.resumeTurns,
    clock,
    log: log.child({ component: "agent" }),
    ...(options.watch && { watch: options.watch }),
  })
  const applyConfig = createApplyConfig({
    agent,
    channels,
    send: link.send,
    log: log.child({ component: "agent" }),
  })
  return { agent, broker, applyConfig, model: () => model }
}

/** What the agent's tools need of the settings. */
const toolVariables = (
  settings: Settings,
  broker: { readonly origin: string; readonly token: string },
): Record<string, string> => ({
  WHISPER_MODELS: settings.whisperModels,
  ...(settings.parallelApiKey && {
    SANDPIPER_BROKER_URL: broker.origin,
    SANDPIPER_BROKER_TOKEN: broker.token,
  }),
  ...(settings.parentSessionId && { PARENT_SESSION_ID: settings.parentSessionId }),
  ...(settings.publicUrl && { SANDPIPER_PUBLIC_URL: settings.publicUrl }),
})

const parallelService = ({ parallelApiKey, parallelApiUrl }: Settings): Record<string, Service> =>
  parallelApiKey === undefined
    ? {}
    : {
        [PARALLEL]: {
          url: parallelApiUrl,
          headers: { "x-api-key": parallelApiKey },
          calls: "parallel",
        },
      }
