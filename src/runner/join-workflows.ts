/** Creates the workflow executions of this runner and joins them with the channels, the link and the shell. */
import type { Database } from "bun:sqlite"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import type { Channels } from "./channels/channels.ts"
import type { Link } from "./link/link.ts"
import type { RunCommand } from "./sandbox/run-command.ts"
import { noMask } from "./sandbox/secret-mask.ts"
import { createExecutions, type Executions } from "./workflow/executions.ts"
import { openExecutionStore } from "./workflow/execution-store.ts"
import { findWorkflow } from "./workflow/order-sources.ts"
import { createSteps } from "./workflow/steps.ts"

export interface WorkflowOptions {
  readonly db: Database
  readonly channels: Channels
  readonly link: Pick<Link, "send" | "request">
  /** Runs a command as the agent's user, in the workspace. */
  readonly runCommand: RunCommand
  readonly clock: Clock
  readonly log: Log
}

export const joinWorkflows = (options: WorkflowOptions): Executions => {
  const { db, channels, link, runCommand, clock, log } = options
  return createExecutions({
    store: openExecutionStore(db),
    perform: createSteps({
      channels,
      send: link.send,
      bash: ({ command, cwd, timeoutMs }, signal) =>
        runCommand(
          {
            program: "bash",
            // Both streams in one, so that the output keeps the order in which it was printed.
            args: ["-c", 'exec 2>&1; eval "$0"', command],
            cwd,
            timeoutMs,
            env: {},
            signal,
          },
          noMask,
        ),
      clock,
    }),
    findWorkflow: (id) => findWorkflow(link.request, id),
    answer: (executionId, envelope) =>
      link.send({ type: "workflow-execution-result", executionId, envelope }),
    accepted: (executionId) => link.send({ type: "workflow-accepted", executionId }),
    clock,
    newId: () => crypto.randomUUID(),
    log,
  })
}
