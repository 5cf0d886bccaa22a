/** One client connection: heads are read one after another, each becomes an exchange, and none is begun before the last is over. */
import type { Socket } from "bun"
import { type BodyReader, createBodyReader } from "../http/body.ts"
import { problem, renderAnswer } from "../http/response.ts"
import { BadHead } from "../http/fields.ts"
import { HEAD_LIMIT, parseRequestHead, type RequestHead } from "../http/head.ts"
import type { ClientListener, ProxyRequest } from "./proxy-request.ts"
import { createOutlet } from "./socket-writer.ts"

export type ConnectionPhase = "head" | "busy" | "raw" | "closing"

export interface Connection {
  readonly data: (bytes: Buffer) => void
  readonly end: () => void
  readonly gone: () => void
  readonly drain: () => void
  readonly phase: () => ConnectionPhase
  /** No new request after this one. */
  readonly retire: () => void
  readonly close: () => void
  /**
   * Ends it at once when what it serves is meant, or an answer that the client has not taken yet. A socket that is no
   * longer HTTP takes leave first. True when it was ended.
   */
  readonly drop: (isMeant: (exchange: ProxyRequest) => boolean) => boolean
  /** Ends what has taken too long. */
  readonly sweep: (now: number) => void
}

export interface ConnectionOptions {
  readonly socket: Socket<unknown>
  readonly now: () => number
  readonly begin: (exchange: ProxyRequest) => void
  readonly over: (exchange: ProxyRequest) => void
  /** What came was no request. */
  readonly refused: (status: number) => void
}

const HEAD_MS = 10_000
const SILENT_MS = 75_000
const BODY_STALL_MS = 60_000
const ANSWER_STALL_MS = 10 * 60_000
/** What a client may still be sending after its answer is read and thrown away for so long, lest it lose the answer. */
const LINGER_MS = 1000
const END = Buffer.from("\r\n\r\n")

export const createConnection = (options: ConnectionOptions): Connection => {
  const { socket, now } = options
  const peer = socket.remoteAddress
  const outlet = createOutlet(socket)
  let phase: ConnectionPhase = "head"
  /** Bytes that nobody has asked for yet: part of a head, the next request, or a body that has to wait. */
  let held: Buffer | undefined
  let reader: BodyReader | undefined
  let listener: ClientListener | undefined
  let exchange: ProxyRequest | undefined
  /** The one before: its answer may still be waiting for the client. */
  let last: ProxyRequest | undefined
  let farewell: () => Uint8Array | undefined = () => undefined
  let touchedAt = now()
  let paused = false
  let retired = false
  let pumping = false
  let ended = false
  let bytesIn = 0
  let bytesOut = 0

  const pause = () => {
    if (paused) return
    paused = true
    socket.pause()
  }
  const resume = () => {
    if (!paused) return
    paused = false
    touchedAt = now()
    socket.resume()
  }
  const hold = (bytes: Buffer) => {
    held = held === undefined ? bytes : Buffer.concat([held, bytes])
  }

  const linger = () => {
    phase = "closing"
    held = undefined
    touchedAt = now()
    resume()
    outlet.finish()
  }

  const refuse = (error: unknown) => {
    if (!(error instanceof BadHead)) throw error
    outlet.write(renderAnswer(problem(error.status, "malformed", error.message), false, false))
    options.refused(error.status)
    linger()
  }

  /** Begins exchanges as long as there are whole heads; a loop, since many may have come at once. */
  const pump = () => {
    if (pumping) return
    pumping = true
    while (phase === "head" && held !== undefined) {
      const bytes = skipEmptyLine(held)
      const end = bytes.indexOf(END)
      if (end === -1) {
        held = bytes.length === 0 ? undefined : bytes
        if (bytes.length > HEAD_LIMIT) refuse(new BadHead(431, "the head is too long"))
        break
      }
      try {
        if (end > HEAD_LIMIT) throw new BadHead(431, "the head is too long")
        const head = parseRequestHead(bytes.toString("latin1", 0, end))
        const next = end + END.length
        held = next === bytes.length ? undefined : bytes.subarray(next)
        begin(head, next)
      } catch (error) {
        refuse(error)
      }
    }
    pumping = false
  }

  const begin = (head: RequestHead, headBytes: number) => {
    phase = "busy"
    bytesIn = headBytes
    bytesOut = 0
    reader = undefined
    listener = undefined
    exchange = createExchange(head)
    options.begin(exchange)
  }

  const over = () => {
    const done = exchange
    exchange = undefined
    listener = undefined
    reader = undefined
    if (done === undefined) return
    last = done
    options.over(done)
  }

  /** The request's body, as far as it is here. */
  const feed = () => {
    if (reader === undefined || listener === undefined || held === undefined) return
    const to = listener
    const from = reader
    const bytes = held
    held = undefined
    const taken = from.feed(bytes, to.data)
    if (listener !== to) return
    bytesIn += taken
    if (taken < bytes.length) held = bytes.subarray(taken)
    if (from.done()) to.end()
  }

  const createExchange = (head: RequestHead): ProxyRequest => {
    const isOpen = () => exchange === self
    const write = (bytes: Uint8Array) => {
      if (!isOpen()) return true
      bytesOut += bytes.length
      touchedAt = now()
      return outlet.write(bytes)
    }
    const finish = (keepAlive: boolean) => {
      if (!isOpen()) return
      const complete = reader?.done() ?? head.framing.kind === "none"
      over()
      touchedAt = now()
      if (!keepAlive || !head.keepAlive || !complete || retired || ended) return linger()
      phase = "head"
      resume()
      pump()
    }
    const self: ProxyRequest = {
      head,
      peer,
      note: "none",
      status: 0,
      receive: (to, form) => {
        if (!isOpen()) return
        listener = to
        reader = createBodyReader(head.framing, form)
        if (reader.done()) return to.end()
        try {
          feed()
        } catch (error) {
          return badBody(error)
        }
        resume()
      },
      pause: () => {
        if (isOpen()) pause()
      },
      resume: () => {
        if (isOpen()) resume()
      },
      write,
      finish,
      cut: () => {
        if (!isOpen()) return
        over()
        phase = "closing"
        socket.terminate()
      },
      answer: (answer) => {
        if (!isOpen()) return
        self.status = answer.status
        const complete = reader?.done() ?? head.framing.kind === "none"
        const keepAlive = head.keepAlive && complete && !retired
        write(renderAnswer(answer, head.method === "HEAD", keepAlive))
        finish(keepAlive)
      },
      interim: (line) => {
        if (isOpen() && head.version === "1.1")
          outlet.write(Buffer.from(`HTTP/1.1 ${line}\r\n\r\n`))
      },
      takeOver: (to, words) => {
        phase = "raw"
        listener = to
        farewell = words
        const early = held
        held = undefined
        if (early !== undefined) to.data(early)
        resume()
        return {
          write,
          finish: outlet.finish,
          end: () => {
            if (isOpen()) socket.end()
          },
          resume,
          waiting: outlet.waiting,
        }
      },
      isOpen,
      bytesIn: () => bytesIn,
      bytesOut: () => bytesOut,
    }
    return self
  }

  /** In the middle of a body there is no way back to where the next request would begin. */
  const badBody = (error: unknown) => {
    const left = listener
    const answered = bytesOut > 0
    over()
    left?.gone()
    if (answered) {
      phase = "closing"
      return socket.terminate()
    }
    refuse(error)
  }

  return {
    data: (bytes) => {
      touchedAt = phase === "head" && held !== undefined ? touchedAt : now()
      switch (phase) {
        case "head":
          hold(bytes)
          return pump()
        case "busy":
          hold(bytes)
          if (reader === undefined || listener === undefined || reader.done()) {
            // The next request, or a body that nobody has asked for yet: a little is kept, the rest stays outside.
            if ((held?.length ?? 0) >= HEAD_LIMIT || exchange?.head.framing.kind !== "none") pause()
            return
          }
          try {
            feed()
          } catch (error) {
            badBody(error)
          }
          return
        case "raw":
          bytesIn += bytes.length
          return listener?.data(bytes)
        case "closing":
          return
      }
    },
    end: () => {
      ended = true
      if (phase === "raw") return listener?.end()
      // Nothing more to ask, and an answer still on its way: it is not cut short.
      if (exchange === undefined && outlet.waiting() > 0)
        return phase === "closing" ? undefined : linger()
      // A client that says nothing more and leaves looks the same: what it asked for is given up.
      const left = listener
      over()
      left?.gone()
      phase = "closing"
      socket.end()
    },
    gone: () => {
      phase = "closing"
      const left = listener
      over()
      left?.gone()
    },
    drain: () => {
      touchedAt = now()
      if (outlet.drain()) listener?.drained()
    },
    phase: () => phase,
    retire: () => {
      retired = true
      if (phase === "head") linger()
    },
    close: () => void socket.end(),
    drop: (isMeant) => {
      const served = exchange ?? (outlet.waiting() > 0 ? last : undefined)
      if (served === undefined || !isMeant(served)) return false
      // Behind bytes that the client does not take, nothing that is said would reach it.
      const words = outlet.waiting() > 0 ? undefined : farewell()
      const left = listener
      over()
      left?.gone()
      if (words !== undefined && outlet.write(words)) {
        linger()
      } else {
        phase = "closing"
        socket.terminate()
      }
      return true
    },
    sweep: (at) => {
      const since = at - touchedAt
      if (phase === "closing") {
        // What the system has taken is still delivered after this; only what waits here would be lost.
        if (since > (outlet.waiting() > 0 ? ANSWER_STALL_MS : LINGER_MS)) socket.end()
        return
      }
      if (phase === "head") {
        if (held !== undefined && since > HEAD_MS)
          refuse(new BadHead(408, "the head took too long"))
        else if (since > SILENT_MS) socket.end()
      }
      if (phase !== "busy") return
      const receiving = reader !== undefined && !reader.done() && !paused
      if (receiving && since > BODY_STALL_MS && bytesOut === 0) {
        return badBody(new BadHead(408, "the body took too long"))
      }
      // Neither end has moved for so long that one of them may be gone without a word.
      if ((paused || outlet.waiting() > 0) && since > ANSWER_STALL_MS) socket.terminate()
    },
  }
}

/** A line that some clients send after a body, and that belongs to nothing. */
const skipEmptyLine = (bytes: Buffer): Buffer =>
  bytes.length >= 2 && bytes[0] === 13 && bytes[1] === 10 ? bytes.subarray(2) : bytes
