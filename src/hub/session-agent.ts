/**
 * A session agent in this process, for one runner on one machine: takes the runner's link on a loopback port, hands
 * it prompts when it is ready, and tells its owner what comes back. It speaks the same wire as any other.
 */
import { timingSafeEqual } from "node:crypto"
import type { ServerWebSocket } from "bun"
import type { Inbound, InboundFrame, OutboundFrame } from "../protocol/index.ts"
import { parseOutbound } from "../protocol/index.ts"

export interface SessionAgentOptions {
  readonly token: string
  readonly config: Inbound<"opencode-config">["config"]
  /** Every frame of the runner, once, in order. */
  readonly onFrame: (frame: OutboundFrame) => void
  readonly onProblem: (problem: string) => void
}

export interface SessionAgent {
  /** Where the runner's link goes. */
  readonly url: string
  /** Queued until the runner is idle; resolves to nothing, the answer comes as frames. */
  readonly prompt: (content: string) => string
  readonly answer: (questionId: string, answer: string) => void
  readonly abort: () => void
  readonly stop: () => Promise<void>
}

export const startSessionAgent = (options: SessionAgentOptions): SessionAgent => {
  const queue: Inbound<"prompt">[] = []
  /** The last frame stored of each epoch: what comes again is not taken again. */
  const stored = new Map<string, number>()
  let runner: ServerWebSocket<unknown> | undefined
  let epoch = ""
  let idle = false

  const say = (frame: InboundFrame) => runner?.send(JSON.stringify(frame))

  const dispatch = () => {
    if (!runner || !idle) return
    const prompt = queue.shift()
    if (!prompt) return
    idle = false
    say(prompt)
  }

  const take = (frame: OutboundFrame) => {
    if (frame.type === "ping") return say({ type: "pong" })
    if (frame.type === "hello") {
      epoch = frame.epoch
      say({ type: "welcome", protocol: 2, lastSeq: stored.get(epoch) ?? 0 })
      say({ type: "init" })
      return say({ type: "opencode-config", config: options.config })
    }
    const { seq } = frame
    if (seq !== undefined) {
      if (seq <= (stored.get(epoch) ?? 0)) return
      stored.set(epoch, seq)
      say({ type: "ack", seq })
    }
    options.onFrame(frame)
    if (frame.type === "agentStatus") {
      idle = frame.status === "idle"
      dispatch()
    }
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request, self) => {
      const given = new URL(request.url).searchParams.get("token") ?? ""
      if (!sameSecret(given, options.token)) return new Response("wrong token", { status: 401 })
      return self.upgrade(request, { data: undefined })
        ? undefined
        : new Response("a WebSocket is expected here", { status: 426 })
    },
    websocket: {
      maxPayloadLength: 32 * 1024 * 1024,
      idleTimeout: 255,
      open: (socket) => {
        runner?.close(1000, "Replaced by new runner connection")
        runner = socket
        idle = false
      },
      message: (socket, data) => {
        if (socket !== runner) return
        const parsed = parseOutbound(String(data))
        if (parsed.ok) take(parsed.frame)
        else options.onProblem(parsed.problem)
      },
      close: (socket) => {
        if (socket === runner) runner = undefined
      },
    },
  })

  return {
    url: `ws://127.0.0.1:${server.port}/`,
    prompt: (content) => {
      const messageId = crypto.randomUUID()
      queue.push({ type: "prompt", messageId, content })
      dispatch()
      return messageId
    },
    answer: (questionId, answer) => say({ type: "answer", questionId, answer }),
    abort: () => {
      queue.length = 0
      say({ type: "abort" })
    },
    stop: async () => {
      await server.stop(true)
    },
  }
}

const sameSecret = (given: string, expected: string): boolean => {
  const [a, b] = [given, expected].map((text) =>
    new Bun.CryptoHasher("sha256").update(text).digest(),
  )
  return a !== undefined && b !== undefined && timingSafeEqual(a, b)
}
