/** Joins what the runner does in the sandbox beside the agent: its environment, git, secrets, terminals, services, files. */
import { delimiter } from "node:path"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { factOf } from "../lib/state-db.ts"
import type { Settings } from "../settings/settings.ts"
import { agentEnvironment } from "../settings/reaches.ts"
import type { OutboundFrame } from "../wire/frames/index.ts"
import { controlVariables, RUNNER_DIR } from "./host/control-socket.ts"
import { readBootId } from "./host/boot-id.ts"
import { wrapperFolder } from "./host/gh-wrapper.ts"
import type { User } from "./host/users.ts"
import { joinEgress } from "./join-egress.ts"
import { joinServices } from "./join-services.ts"
import { joinSync } from "./join-sync.ts"
import type { Link } from "./link/link.ts"
import { openDisplayStore } from "./sandbox/display/display-store.ts"
import { createDisplayReporter } from "./sandbox/display/report-display.ts"
import { createGit } from "./sandbox/git.ts"
import { openSecrets } from "./sandbox/open-secrets.ts"
import { createChangeReporter } from "./sandbox/report-changes.ts"
import { createRunCommand } from "./sandbox/run-command.ts"
import type { StateParts } from "./state/open-parts.ts"
import { createTerminals } from "./sandbox/terminals.ts"
import { createV1Supervisor } from "./sandbox/v1/supervisor.ts"
import { createWorkspace } from "./sandbox/workspace-changes.ts"

export interface JoinSandboxOptions {
  readonly config: Settings
  readonly state: StateParts
  readonly self: readonly string[]
  readonly user: User | undefined
  readonly workDir: string
  readonly apiToken: string
  readonly gatewayPort: () => number
  /** The current token of the secrets provider: a restored sandbox may have a new one. */
  readonly secretsToken: () => string | undefined
  readonly send: (frame: OutboundFrame) => void
  readonly request: Link["request"]
  readonly clock: Clock
  readonly log: Log
}

const EGRESS_FACT = "agent.egress"
const PROCESSES_FACT = "v1.processes"

/** In a sandbox the runner's `gh` comes before the installed one. On a person's machine `gh` is theirs. */
const pathWithGh = ({ command, stateDir, environment }: Settings): Record<string, string> => {
  const path = environment["PATH"]
  return command === "run" && path !== undefined
    ? { PATH: [wrapperFolder(stateDir), path].join(delimiter) }
    : {}
}

export const joinSandbox = (options: JoinSandboxOptions) => {
  const { config, self, user, workDir, apiToken, send, clock, log } = options
  const { machine, session: db } = options.state
  const egress = joinEgress({
    config,
    user,
    bootId: readBootId(),
    memory: factOf(db, EGRESS_FACT),
    send,
    log: log.child({ component: "egress" }),
  })
  /** The variables from which the agent's environment is taken. */
  const variables = { ...config.environment, ...egress.variables, ...pathWithGh(config) }
  const environment = agentEnvironment(variables, config.agentEnvAllow ?? [])
  /** Of programs that run as the agent's user. */
  const userEnvironment = {
    ...environment,
    ...(user && { USER: user.name, HOME: user.home }),
  }
  /** Of git and of commands with secrets: a killed runner cannot end them. */
  const marked = { ...environment, [RUNNER_DIR]: config.stateDir }
  const git = createGit({ workDir, environment: marked, user, clock })
  const workspace = createWorkspace(git)
  const changes = createChangeReporter({
    workDir,
    git,
    workspace,
    send,
    onChange: () => sync?.changed(),
    clock,
    log: log.child({ component: "workspace" }),
  })
  const display = createDisplayReporter({
    workDir,
    store: openDisplayStore(db),
    owner: user,
    send,
    log: log.child({ component: "display" }),
  })
  const secrets = openSecrets({
    ...config,
    secretsToken: options.secretsToken,
    environment: marked,
    owner: user,
    clock,
  })
  const terminals = createTerminals({
    workDir,
    environment: userEnvironment,
    user,
    owner: config.stateDir,
    clock,
  })
  const services = joinServices({
    config,
    db: machine,
    root: config.workDir,
    workDir,
    environment: userEnvironment,
    user,
    secrets,
    clock,
    log: log.child({ component: "services" }),
  })
  const v1 = createV1Supervisor({
    self,
    root: config.workDir,
    user,
    environment: () => ({
      ...userEnvironment,
      SANDPIPER_URL: `http://127.0.0.1:${options.gatewayPort()}`,
      ...controlVariables(config.stateDir, apiToken),
    }),
    memory: factOf(db, PROCESSES_FACT),
    clock,
    log: log.child({ component: "v1" }),
  })
  const sync = joinSync({
    isOn: config.workspaceSync,
    db,
    request: options.request,
    v1,
    clock,
    log: log.child({ component: "workspace" }),
  })
  const runCommand = createRunCommand({
    workDir,
    environment: { ...userEnvironment, ...controlVariables(config.stateDir, apiToken) },
    owner: user,
    clock,
  })
  return {
    egress,
    variables,
    environment,
    git,
    workspace,
    changes,
    display,
    secrets,
    terminals,
    services,
    v1,
    sync,
    runCommand,
  }
}
