/** Requests of the runner: each is carried out once and answered as often as it is asked. */
import type { InboundFrame, Parsed, RequestFrame } from "../../wire/frames/index.ts"
import type { SessionContext } from "./session-context.ts"
import { one } from "./ports.ts"

export interface Rpc {
  readonly ask: (frame: RequestFrame) => void
  /** A request that could not be read is answered too, when it says its id. */
  readonly refuse: (parsed: Extract<Parsed<unknown>, { ok: false }>) => void
}

const RESULT_CHARACTERS = 1_000_000

export const createRpc = ({ ports, link }: SessionContext): Rpc => {
  /** Those that are being carried out now: a repeated question waits for the same answer. */
  const running = new Set<string>()
  const tell = (frame: Record<string, unknown>) => {
    const { connection } = link.now()
    if (connection !== null) ports.sockets.send(connection, JSON.stringify(frame))
  }

  const finish = (frame: RequestFrame, result: Record<string, unknown>) => {
    running.delete(frame.requestId)
    const answer = { ...result, type: `${frame.type}-result`, requestId: frame.requestId }
    const text = JSON.stringify(answer)
    if (text.length <= RESULT_CHARACTERS) {
      ports.sql.run(
        "INSERT OR REPLACE INTO rpc (request_id, type, result, at) VALUES (?, ?, ?, ?)",
        frame.requestId,
        frame.type,
        text,
        ports.now(),
      )
    }
    tell(answer)
  }

  return {
    ask: (frame) => {
      const known = one(
        ports.sql.all<{ result: string }>(
          "SELECT result FROM rpc WHERE request_id = ?",
          frame.requestId,
        ),
      )
      if (known) return tell(JSON.parse(known.result) as InboundFrame)
      if (running.has(frame.requestId)) return
      running.add(frame.requestId)
      ports.answer(frame).then(
        (result) => finish(frame, result),
        (error: unknown) =>
          finish(frame, { error: error instanceof Error ? error.message : String(error) }),
      )
    },
    refuse: ({ type, requestId, problem }) => {
      if (type !== undefined && requestId !== undefined) {
        tell({ type: `${type}-result`, requestId, error: `malformed request: ${problem}` })
      }
    },
  }
}
