/** What the runner is started with, and how the program that started it stops it and learns of its end. */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import type { PageFiles } from "../lib/page/asset-response.ts"
import type { Settings } from "../settings/settings.ts"
import type { Gateway } from "./gateway/gateway.ts"
import type { PageOptions } from "./gateway/page/page-door.ts"
import type { MissingProgram } from "./host/services.ts"
import type { Endpoint } from "./opencode/config/endpoints.ts"
import type { WatchOptions } from "./opencode/launch/hang-detector.ts"
import type { StateParts } from "./state/open-parts.ts"
import type { MayFetch } from "./prompt/fetch-file.ts"

export interface DaemonOptions {
  readonly config: Settings
  /** Address and token of the session agent: from the settings, or those of a hub in this process. */
  readonly link: { readonly url: string; readonly token: string }
  /** Of this session: opened before anything of the runner reads the state directory. `stop` closes it. */
  readonly state: StateParts
  readonly version: string
  readonly log: Log
  readonly clock?: Clock
  /** Reads the settings again after a restore, when the platform may have replaced secrets. */
  readonly readAgain?: () => Settings
  /** The command that starts this program; git starts it as its credential helper. */
  readonly self?: readonly string[]
  /** Ports of other servers of this process, such as the demo model, with their owners: no tunnel may use them. */
  readonly reservedPorts?: ReadonlyMap<number, string>
  /** The page, which the gateway serves on a host of its own. */
  readonly page?: PageOptions
  /** The built files of the page, of which the gateway serves the terminal. Without them it serves no terminals. */
  readonly pageFiles?: PageFiles | undefined
  /** Model endpoints with their models; the default is what the environment names. */
  readonly endpoints?: readonly Endpoint[]
  /** `complete_session` ends the conversations and not the runner, as in the first session of `up`. */
  readonly staysOpen?: boolean
  /** Which addresses attachments may be fetched from; by default none of this machine. */
  readonly mayFetch?: MayFetch
  /** When an OpenCode that does not respond counts as hung; the default is about half a minute. */
  readonly watch?: Pick<WatchOptions, "everyMs" | "misses">
}

/** Why the runner ends, and the exit code. */
export interface Ending {
  readonly code: number
  readonly why: string
}

export interface Daemon {
  /** Resolves when the gateway listens and the link is dialling; the agent starts in the background. */
  readonly start: () => Promise<Gateway>
  /** Resolves when the runner should end: the session is over, the link was refused, or `stop` has finished. */
  readonly done: Promise<Ending>
  readonly stop: (ending: Ending) => Promise<void>
  /** Programs that the requested services need and that are not installed. */
  readonly missingPrograms: () => readonly MissingProgram[]
  /** The model of prompts that name none, once OpenCode is ready. */
  readonly model: () => string | undefined
}
