/**
 * Creates every component of the runner and joins them; starts and stops them in order. Logic belongs in the components,
 * not here.
 */
import { join } from "node:path"
import { systemClock, within } from "../lib/clock.ts"
import { createLate } from "../lib/late.ts"
import { selfCommand } from "../lib/self-command.ts"
import { factOf, readFact, writeFact } from "../lib/state-db.ts"
import { gatewayUrlOf, reservedPorts } from "./addresses.ts"
import { openChannelStore } from "./channels/channel-store.ts"
import { openJobStore } from "./channels/job-store.ts"
import { createCommandHandler } from "./commands/index.ts"
import type { Daemon, DaemonOptions, Ending } from "./daemon-options.ts"
import { createCurrentSettings } from "./current-settings.ts"
import { bootToken } from "./gateway/api-token.ts"
import type { Gateway } from "./gateway/gateway.ts"
import { readBootId } from "./host/boot-id.ts"
import { diskStateOf } from "./host/disk-report.ts"
import { watchForRestore } from "./host/detect-restore.ts"
import { createHost } from "./host/host.ts"
import { plannedDirectory } from "./host/prepare-repositories.ts"
import { chooseAgentUser } from "./host/users.ts"
import { joinAgent, secretAgentFacts } from "./join-agent.ts"
import { joinApprovals } from "./join-approvals.ts"
import { joinChannels } from "./join-channels.ts"
import { joinGateway } from "./join-gateway.ts"
import { joinHibernation } from "./join-hibernation.ts"
import { type Joined, joinLink } from "./join-link.ts"
import { joinSandbox } from "./join-sandbox.ts"
import { joinWatchdog } from "./join-watchdog.ts"
import { joinWorkflows } from "./join-workflows.ts"
import { agentDirectories } from "./opencode/config/config-directories.ts"
import { createGitIdentities } from "./prompt/git-identity.ts"
import { createReadiness } from "./readiness.ts"
import { runFromShell } from "./workflow/shell-runs.ts"
import { channelOf } from "./workflow/steps.ts"

/** A shutdown takes at most the sum of these, below the ten seconds that a platform waits. */
const SETTLE_MS = 4000
const PROCESSES_MS = 3000
const FLUSH_MS = 1500
const CLOSE_MS = 500
/** Changes of the workspace are reported from the agent's start on, or after this long without an agent. */
const CHANGES_WAIT_MS = 10_000
const API_TOKEN_FACT = "agent.api-token"

const COMPLETE_MS = 500

export const createDaemon = (options: DaemonOptions): Daemon => {
  const { config, log, clock = systemClock } = options
  const { machine, session: db } = options.state
  const done = Promise.withResolvers<Ending>()
  const stopped = new AbortController()
  const settings = createCurrentSettings({ initial: config, readAgain: options.readAgain, log })
  /** Required by every route below /api; only the agent's tools receive it. */
  const apiToken = bootToken(readBootId(), factOf(db, API_TOKEN_FACT))
  const joined = createLate<Joined>("the runner's components")
  const agentReady = Promise.withResolvers<void>()
  let gateway: Gateway | undefined

  const gatewayPort = () => gateway?.port ?? config.gatewayPort
  const workDir = plannedDirectory(config.workDir, config.repositories)
  const publicUrl = () => gatewayUrlOf(config, gateway?.port, options.page)
  const { link, metrics: linkMetrics } = joinLink({
    config,
    address: options.link,
    version: options.version,
    db,
    joined,
    gatewayUrl: publicUrl,
    directory: workDir,
    announceTunnels: () => gateway?.announceTunnels(),
    isStopping: () => stopped.signal.aborted,
    onEnd: (code, why) => done.resolve({ code, why }),
    clock,
    log: log.child({ component: "link" }),
  })

  const self = options.self ?? selfCommand()
  const user = chooseAgentUser(config.agentUser, process.getuid?.() === 0)
  const sandbox = joinSandbox({
    config,
    state: options.state,
    self,
    user,
    workDir,
    apiToken,
    gatewayPort,
    secretsToken: () => settings.get().secretsToken,
    send: link.send,
    request: link.request,
    clock,
    log,
  })
  const { changes, display, egress, environment, git, secrets, services, sync } = sandbox
  const { terminals, v1, workspace } = sandbox
  const gitIdentities = createGitIdentities(
    join(agentDirectories(config.stateDir).root, "git-identities"),
  )
  const sessions = openChannelStore(db)
  const jobs = openJobStore(db)
  const approvals = joinApprovals({
    actions: config.approveActions ?? [],
    channels: () => channels,
    send: link.send,
    clock,
  })
  const channels = joinChannels({
    mayFetch: options.mayFetch,
    config,
    sessions,
    jobs,
    link,
    send: link.send,
    onTurnFiles: changes.turnEnded,
    onTurnOver: (turn) => {
      approvals.promptEnded(turn.messageId)
      display.turnEnded(turn)
    },
    workDir,
    self,
    user,
    gitIdentities,
    clock,
    log: log.child({ component: "channels" }),
  })
  const readiness = createReadiness({
    clock,
    send: link.send,
    linkState: link.state,
    channelStatus: channels.status,
    disk: () => diskStateOf(config.diskFile),
  })

  const workflows = joinWorkflows({
    db,
    channels,
    link,
    runCommand: sandbox.runCommand,
    clock,
    log: log.child({ component: "workflow" }),
  })
  const host = createHost({
    config,
    current: settings.get,
    self,
    apiToken,
    user,
    environment,
    clock,
    log: log.child({ component: "host" }),
    memory: {
      read: (name) => readFact(machine, name),
      write: (name, value) => writeFact(machine, name, value),
    },
    setComponent: readiness.setComponent,
    ...(sync && { restoreWorkspace: sync.restore }),
    issueGitToken: (origin, repositories) =>
      link.request("git-token", { origin, repositories: [...repositories] }),
    hasTerminals: options.pageFiles !== undefined,
    setServices: readiness.setServices,
    runHook: (hook) => joined.get().hibernation.runHook(hook),
    runWorkflow: (order, caller, gone) => runFromShell(workflows, order, caller, gone),
  })

  const { agent, broker, applyConfig, model } = joinAgent({
    config,
    current: settings.get,
    db,
    version: options.version,
    self,
    user,
    workDir,
    apiToken,
    gatewayPort,
    variables: sandbox.variables,
    endpoints: options.endpoints,
    watch: options.watch,
    channels,
    readiness,
    link,
    linkMetrics,
    host,
    gitIdentities,
    onReady: () => {
      agentReady.resolve()
      void services.autostart()
    },
    clock,
    log,
  })
  const inbound = createCommandHandler({
    replyApproval: approvals.reply,
    channels,
    workflows,
    jobs,
    agentSessionIds: sessions.all,
    workspacePatches: workspace.readPatches,
    snapshots: { directory: join(agentDirectories(config.stateDir).data, "snapshot"), git },
    send: link.send,
    reportState: readiness.reportOnRequest,
    clock,
    setGitCredentials: host.setGitCredentials,
    configure: (change, requestId) => void applyConfig(change, requestId),
    stop: () => done.resolve({ code: 0, why: "the session agent requested a stop" }),
    deleteTunnel: async (name) => gateway?.deleteTunnel(name),
    log: log.child({ component: "inbound" }),
  })

  const hibernation = joinHibernation({
    config,
    state: options.state,
    secretFacts: [API_TOKEN_FACT, ...secretAgentFacts],
    channels,
    workflows,
    display,
    sync,
    link,
    services: services.with(host.services),
    settings,
    gateway: () => gateway,
    refresh: host.refresh,
    clock,
    log: log.child({ component: "host" }),
  })
  joined.set({ channels, workflows, display, readiness, agent, inbound, hibernation })

  const watchdog = joinWatchdog({ config, self, clock, log: log.child({ component: "watchdog" }) })
  let stopWatching = () => {}
  const watchFiles = async () => {
    await host.prepared().catch(() => {})
    display.start()
    // The first look at the changes runs git several times, which would slow the start of OpenCode.
    await within(clock, CHANGES_WAIT_MS, agentReady.promise)
    if (!stopped.signal.aborted) changes.start()
  }

  return {
    start: async () => {
      await watchdog.start()
      gateway = joinGateway({
        config,
        db,
        apiToken,
        channels,
        link,
        readiness,
        agent,
        linkMetrics,
        reserved: () =>
          new Map([
            ...(options.reservedPorts ?? []),
            ...reservedPorts(
              config.rawVncPort,
              host.controlPort(),
              broker.port,
              v1.port(),
              config.closedPorts,
            ),
          ]),
        git,
        secrets,
        workspace: sync,
        onChanged: () => sync?.changed(),
        approvals,
        services: {
          ...services,
          isSetup: config.sessionKind === "setup",
          root: config.workDir,
          workDir,
          owner: user,
          publicUrl,
          clock,
        },
        v1,
        page: options.page,
        terminals,
        terminal: options.pageFiles && { terminals, files: options.pageFiles },
        onCompleted: () => {
          if (options.staysOpen !== true)
            // Delayed, so that the tool call gets its response and the turn ends with it.
            return void clock.after(COMPLETE_MS, () =>
              done.resolve({ code: 0, why: "the agent completed the session" }),
            )
          channels
            .startAfresh()
            .catch((error: unknown) =>
              log.warn("session.not-started-afresh", { error: String(error) }),
            )
        },
        clock,
        log: log.child({ component: "gateway" }),
      })
      await egress.start()
      broker.start()
      agent.begin()
      try {
        await host.start()
      } catch (error) {
        await agent.stop()
        throw error
      }
      // Turns of workflows that ended with the last process would otherwise continue in OpenCode unobserved.
      for (const id of workflows.recover())
        void channels.stop(channelOf(id), "the workflow has ended")
      link.start()
      void watchFiles()
      stopWatching = watchForRestore({ clock, onRestore: (why) => void hibernation.restored(why) })
      log.info("daemon.started", { gatewayPort: gateway.port, stateDir: config.stateDir })
      return gateway
    },
    done: done.promise,
    stop: async (ending) => {
      if (stopped.signal.aborted) return
      stopped.abort()
      log.info("daemon.stopping", { why: ending.why })
      stopWatching()
      changes.stop()
      hibernation.stop()
      sync?.stop()
      const why = "the runner is shutting down"
      const turns = [workflows.stop(undefined, why), channels.stop(undefined, why)]
      await within(clock, SETTLE_MS, Promise.all(turns).then(display.settled).then(sync?.settle))
      terminals.stop()
      const areEnded = await within(
        clock,
        PROCESSES_MS,
        Promise.all([agent.stop(), host.stop(), services.services.suspend(), v1.stop()]),
      )
      await link.stop(FLUSH_MS)
      await within(clock, CLOSE_MS, Promise.all([gateway?.stop(), broker.stop(), egress.stop()]))
      if (areEnded) watchdog.release()
      options.state.close()
      done.resolve(ending)
    },
    missingPrograms: host.services.missing,
    model,
  }
}
