/** What the session agent may say, and who does it. The map is total: a verb without an entry does not compile. */
import { addressOf } from "../channels/channel-key.ts"
import type { Channels } from "../channels/channels.ts"
import type { Log } from "../log.ts"
import type { CommandFrame, Inbound, OutboundFrame } from "../protocol/index.ts"

export interface InboundPorts {
  readonly channels: Channels
  readonly send: (frame: OutboundFrame) => void
  readonly configure: (change: Inbound<"opencode-config">["config"]) => void
  readonly stop: () => void
  /** Answered by the list of tunnels that are left. */
  readonly deleteTunnel: (name: string) => void
  readonly log: Log
}

/** Frames about the link itself end in the uplink and never come here. */
type LinkFrame = "pong" | "welcome" | "ack"
type Verb = Exclude<CommandFrame["type"], LinkFrame>

type Verbs = { readonly [Type in Verb]: (frame: Inbound<Type>) => void }

export const createInbound = (ports: InboundPorts): ((frame: CommandFrame) => void) => {
  const verbs = verbsOf(ports)
  return (frame) => {
    if (!isVerb(frame, verbs)) return
    const run: (frame: never) => void = verbs[frame.type]
    run(frame as never)
  }
}

const isVerb = (frame: CommandFrame, verbs: Verbs): frame is Inbound<Verb> =>
  Object.hasOwn(verbs, frame.type)

const NOT_YET = "this runner does not do that yet"

const verbsOf = ({ channels, send, configure, stop, deleteTunnel, log }: InboundPorts): Verbs => ({
  prompt: (frame) => channels.prompt(frame),
  answer: ({ questionId, answer }) => {
    if (!channels.answer(questionId, answer)) log.warn("answer.unknown-question", { questionId })
  },
  abort: (frame) => {
    // Half an address is none here too, but an abort without any means every channel.
    const scoped = frame.channelType !== undefined || frame.channelId !== undefined
    const address = scoped ? addressOf(frame) : undefined
    channels.stop(address, "stopped by the user")
    send({ type: "aborted", ...address })
  },
  stop: () => stop(),
  init: () => {},
  "opencode-config": ({ config }) => configure(config),
  revert: () => send({ type: "reverted", messageIds: [] }),
  diff: ({ requestId }) => send({ type: "diff", requestId, data: { files: [] }, error: NOT_YET }),
  review: ({ requestId }) => send({ type: "review-result", requestId, error: NOT_YET }),
  "opencode-command": ({ requestId, command }) =>
    send({ type: "command-result", requestId, command, error: NOT_YET }),
  "new-session": ({ requestId, channelType, channelId }) => {
    channels.forget({ channelType, channelId })
    send({ type: "session-reset", requestId, channelType, channelId })
  },
  "tunnel-delete": ({ name }) => deleteTunnel(name),
  "workflow-execute": ({ executionId }) =>
    send({
      type: "workflow-execution-result",
      executionId,
      envelope: { ok: false, status: "failed", executionId, error: NOT_YET },
    }),
  "permission-reply": ({ permissionId }) => log.warn("permission-reply.unknown", { permissionId }),
})
