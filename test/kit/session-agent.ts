/** The session agent's end of the link for tests: records every frame and sends what the test passes to `say`. */
import type { ServerWebSocket } from "bun"
import {
  type InboundFrame,
  isRequest,
  type Outbound,
  type OutboundFrame,
  parseOutbound,
  type RequestFrame,
} from "../../src/wire/frames/index.ts"
import { untilTrue, WAIT_MS } from "./until-true.ts"

interface Options {
  readonly token?: string
  /** Accepts or rejects a token; the default accepts only `token`. */
  readonly accepts?: (token: string) => boolean
  /** Protocol 1 has no hello, welcome and ack. */
  readonly protocol?: 1 | 2
  readonly config?: Extract<InboundFrame, { type: "opencode-config" }>["config"]
  /** The immediate response to a request: its result fields or an error; undefined sends no response. */
  readonly answer?: (request: RequestFrame) => Readonly<Record<string, unknown>> | undefined
  /** While it returns a status, the WebSocket upgrade is refused with that status. */
  readonly refuse?: () => number | undefined
}

export interface TestSessionAgent {
  readonly url: string
  readonly token: string
  /** Stored frames, each once and in order, without pings and hellos. */
  readonly frames: OutboundFrame[]
  readonly hellos: Outbound<"hello">[]
  /** Number of frames received with a seq that was already stored. */
  readonly repeats: () => number
  readonly problems: string[]
  readonly connections: () => number
  readonly isConnected: () => boolean
  readonly say: (frame: InboundFrame) => void
  /** Sends text unchanged, also if it is not a valid frame. */
  readonly sayRaw: (text: string) => void
  /** Closes the runner's connection with a close frame. */
  readonly close: (code: number, reason: string) => void
  /** Resolves with the first matching frame, already received or not, from index `from` on. */
  readonly frame: <Type extends OutboundFrame["type"]>(
    type: Type,
    fits?: (frame: Outbound<Type>) => boolean,
    from?: number,
  ) => Promise<Outbound<Type>>
  readonly until: (condition: () => boolean, what: string, timeoutMs?: number) => Promise<void>
  /** Stops what runs on any channel. For `afterEach`: a test that fails leaves no turn to the next one. */
  readonly settle: () => Promise<void>
  readonly stop: () => Promise<void>
}

export const startTestSessionAgent = (options: Options = {}): TestSessionAgent => {
  const { token = "runner-token-of-the-test", protocol = 2 } = options
  const frames: OutboundFrame[] = []
  const hellos: Outbound<"hello">[] = []
  const problems: string[] = []
  const stored = new Map<string, number>()
  let epoch = ""
  let repeats = 0
  let connections = 0
  let runner: ServerWebSocket<unknown> | undefined
  let watchers: (() => void)[] = []

  const sayRaw = (text: string) => void runner?.send(text)
  const say = (frame: InboundFrame) => sayRaw(JSON.stringify(frame))
  const configure = () => {
    say({ type: "init" })
    if (options.config) say({ type: "opencode-config", config: options.config })
  }

  const take = (frame: OutboundFrame) => {
    if (frame.type === "ping") return say({ type: "pong" })
    if (frame.type === "hello") {
      hellos.push(frame)
      if (protocol === 1) return
      epoch = frame.epoch
      say({ type: "welcome", protocol: 2, lastSeq: stored.get(epoch) ?? 0 })
      return configure()
    }
    if (protocol === 2) {
      const seq = frame.seq ?? Number.NaN
      const last = stored.get(epoch) ?? 0
      if (seq <= last) {
        repeats += 1
        return
      }
      if (seq !== last + 1) problems.push(`seq ${seq} after ${last}`)
      stored.set(epoch, seq)
      say({ type: "ack", seq })
    }
    frames.push(frame)
    if (isRequest(frame)) reply(frame)
  }

  const reply = (request: RequestFrame) => {
    const fields = options.answer?.(request)
    const { type, requestId } = request
    if (fields) sayRaw(JSON.stringify({ type: `${type}-result`, requestId, ...fields }))
  }

  const wake = () => {
    const woken = watchers
    watchers = []
    for (const watch of woken) watch()
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request, self) => {
      const status = options.refuse?.()
      if (status !== undefined) return new Response("refused", { status })
      const given = new URL(request.url).searchParams.get("token")
      const bearer = request.headers.get("authorization")
      const accepts = options.accepts ?? ((offered: string) => offered === token)
      if (given === null || !accepts(given) || bearer !== `Bearer ${given}`) {
        return new Response("", { status: 401 })
      }
      return self.upgrade(request, { data: undefined })
        ? undefined
        : new Response("", { status: 426 })
    },
    websocket: {
      maxPayloadLength: 64 * 1024 * 1024,
      idleTimeout: 0,
      open: (socket) => {
        connections += 1
        const replaced = runner
        runner = socket
        replaced?.close(1000, "Replaced by new runner connection")
        if (protocol === 1) configure()
        wake()
      },
      message: (socket, data) => {
        if (socket !== runner) return
        const parsed = parseOutbound(String(data))
        if (parsed.ok) take(parsed.frame)
        else problems.push(parsed.problem)
        wake()
      },
      close: (socket) => {
        if (socket === runner) runner = undefined
        wake()
      },
    },
  })

  const lastFrames = () =>
    frames
      .slice(-12)
      .map((frame) => JSON.stringify(frame).slice(0, 200))
      .join("\n")

  /** Also looks at each frame: a condition can hold for the moment between two frames. */
  const until = async (condition: () => boolean, what: string, timeoutMs = WAIT_MS) => {
    const seen = Promise.withResolvers<void>()
    let isOver = false
    const look = () => {
      if (isOver) return
      try {
        if (condition()) {
          isOver = true
          seen.resolve()
        } else watchers.push(look)
      } catch (error) {
        isOver = true
        seen.reject(error)
      }
    }
    look()
    const polled = untilTrue(
      () => isOver || condition(),
      () => `${what}; last frames:\n${lastFrames()}\n`,
      timeoutMs,
    )
    try {
      await Promise.race([seen.promise, polled])
    } finally {
      isOver = true
    }
  }

  const frame: TestSessionAgent["frame"] = async (type, fits = () => true, from = 0) => {
    const find = () =>
      frames
        .slice(from)
        .find((one): one is Outbound<typeof type> => one.type === type && fits(one as never))
    await until(() => find() !== undefined, `frame ${type}`)
    const found = find()
    if (!found) throw new Error("unreachable")
    return found
  }

  return {
    url: `ws://127.0.0.1:${server.port}/ws`,
    token,
    frames,
    hellos,
    repeats: () => repeats,
    problems,
    connections: () => connections,
    isConnected: () => runner !== undefined,
    say,
    sayRaw,
    close: (code, reason) => runner?.close(code, reason),
    frame,
    until,
    settle: async () => {
      await until(() => runner !== undefined, "link")
      const from = frames.length
      say({ type: "abort" })
      await frame("aborted", ({ channelId }) => channelId === undefined, from)
    },
    stop: async () => {
      await server.stop(true)
    },
  }
}
