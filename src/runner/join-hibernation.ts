/** Joins hibernation: the order in which the components of the runner pause before a snapshot and resume after it. */
import { type Clock, within } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { runCommand } from "../lib/run-command.ts"
import type { Settings } from "../settings/settings.ts"
import type { CurrentSettings } from "./current-settings.ts"
import type { Gateway } from "./gateway/gateway.ts"
import { createHibernation, type Hibernation } from "./host/snapshot-hooks.ts"
import type { Joined } from "./join-link.ts"
import type { Link } from "./link/link.ts"
import type { WorkspaceSync } from "./sandbox/sync/workspace-sync.ts"
import type { StateParts } from "./state/open-parts.ts"
import { scrubSecrets } from "./snapshot-secrets.ts"

const SYNC_MS = 30_000
/** For the copy of the workspace, before a snapshot. */
const SAVE_MS = 30_000

export interface JoinHibernationOptions extends Pick<Joined, "channels" | "workflows" | "display"> {
  readonly config: Settings
  readonly state: StateParts
  /** Rows of the session part that hold secrets. */
  readonly secretFacts: readonly string[]
  readonly sync: WorkspaceSync | undefined
  readonly link: Link
  readonly services: { readonly start: () => Promise<void>; readonly stop: () => Promise<void> }
  readonly settings: CurrentSettings
  readonly gateway: () => Gateway | undefined
  /** Pulls the repositories again. */
  readonly refresh: () => Promise<void>
  readonly clock: Clock
  readonly log: Log
}

export const joinHibernation = (options: JoinHibernationOptions): Hibernation => {
  const { config, state, channels, workflows, display, sync, link, settings, clock, log } = options
  return createHibernation({
    clock,
    log,
    settled: async () => {
      await workflows.settled()
      await channels.settled()
      await display.settled()
    },
    stopTurns: (why) => {
      void workflows.stop(undefined, why)
      void channels.stop(undefined, why)
    },
    flush: async (ms) => {
      if (sync) await within(clock, SAVE_MS, sync.settle())
      return link.flush(ms)
    },
    scrub: () => scrubSecrets(config.stateDir, state.session, options.secretFacts),
    sync: async () => {
      state.writeOut()
      // No secret: the agent may be this user, who can read the environment of a process.
      const env = { PATH: config.environment["PATH"] }
      await runCommand("sync", [], { env, timeoutMs: SYNC_MS })
    },
    services: options.services,
    renewSecrets: () => {
      settings.reread()
      options.gateway()?.afterRestore(settings.get().jwtSecret)
    },
    reconnect: (why) => link.redial(why, settings.rereadRunnerToken()),
    // A pull during a turn would change the files that the turn works on.
    refresh: async () => {
      await channels.settled()
      await options.refresh()
    },
  })
}
