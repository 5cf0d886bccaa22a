/** Creates the channels of this runner and the preparation of their prompts: attachments, PDFs, speech, git author. */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"
import {
  type Channels,
  type ChannelsOptions,
  createChannels,
  type PreparePrompt,
} from "./channels/channels.ts"
import type { User } from "./host/users.ts"
import type { Link } from "./link/link.ts"
import { createIdMint } from "./opencode/client/ids.ts"
import type { MintId } from "./opencode/client/types.ts"
import { createAttachments } from "./prompt/attachments.ts"
import { createTranscribe } from "./prompt/audio.ts"
import type { createGitIdentities } from "./prompt/git-identity.ts"
import type { MayFetch } from "./prompt/fetch-file.ts"
import { createPrepare } from "./prompt/prepare.ts"
import { createReadPdf } from "./prompt/read-pdf.ts"
import { createSaveFile } from "./prompt/save-file.ts"

export interface JoinChannelsOptions extends Pick<
  ChannelsOptions,
  "sessions" | "jobs" | "send" | "onTurnFiles" | "onTurnOver"
> {
  readonly config: Settings
  readonly link: Pick<Link, "send">
  readonly workDir: string
  readonly mayFetch: MayFetch | undefined
  /** The command that starts this program; PDFs are read in a child process of it. */
  readonly self: readonly string[]
  readonly user: User | undefined
  readonly gitIdentities: ReturnType<typeof createGitIdentities>
  readonly clock: Clock
  readonly log: Log
}

export const joinChannels = (options: JoinChannelsOptions): Channels => {
  const { config, clock, gitIdentities } = options
  const mint = createIdMint(clock.now)
  return createChannels({
    sessions: options.sessions,
    jobs: options.jobs,
    clock,
    log: options.log,
    mint,
    send: options.send,
    ...(options.onTurnFiles && { onTurnFiles: options.onTurnFiles }),
    ...(options.onTurnOver && { onTurnOver: options.onTurnOver }),
    settings: {
      relayPermissions: config.permissions === "relay",
      budgets: {
        firstEvent: config.firstEventSeconds * 1000,
        progress: config.progressSeconds * 1000,
        total: config.turnSeconds * 1000,
      },
    },
    prepare: preparation(options, mint),
    onChildSession: (child, parent) => void gitIdentities.inherit(child, parent),
  })
}

const preparation = (options: JoinChannelsOptions, mint: MintId): PreparePrompt => {
  const { config, link } = options
  return createPrepare({
    mint,
    nameAuthor: options.gitIdentities.set,
    attachments: createAttachments({
      ...(options.mayFetch && { mayFetch: options.mayFetch }),
      save: createSaveFile(options.workDir, { root: config.workDir, owner: options.user }),
      readPdf: createReadPdf({ self: options.self, owner: options.user, clock: options.clock }),
      transcribe: createTranscribe({
        path: config.environment["PATH"] ?? "",
        modelsDir: config.whisperModels,
        user: options.user,
      }),
      onTranscript: ({ messageId }, transcript) =>
        link.send({ type: "audio-transcript", messageId, transcript }),
      onProblem: ({ messageId, channelType, channelId }, detail) =>
        link.send({
          type: "agentStatus",
          status: "thinking",
          detail,
          messageId,
          channelType,
          channelId,
        }),
    }),
  })
}
