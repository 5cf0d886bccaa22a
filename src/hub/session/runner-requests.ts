/** Requests of the runner: each is carried out once; a repeated request gets the stored result. */
import type { Parsed, RequestFrame } from "../../wire/frames/index.ts"
import type { SessionContext } from "./session-context.ts"
import { readRow, resultRow } from "./rows.ts"
import { storedResult } from "./stored-result.ts"

export interface RunnerRequests {
  readonly handle: (frame: RequestFrame) => void
  /** How many requests have no result yet. */
  readonly open: () => number
  /** Resolves when fewer requests are open than a runner may have. */
  readonly room: () => Promise<void>
  /** A malformed request gets an error as its result, if its id could be read. */
  readonly rejectMalformed: (parsed: Extract<Parsed<unknown>, { ok: false }>) => void
}

/** The runner's frames wait while it has more open requests than an agent's tools make at a time. */
export const MOST_OPEN_REQUESTS = 32

/** A longer result does not fit into a row: it is sent but not stored. */
const MAX_STORED_RESULT = 1_000_000

export const createRunnerRequests = ({
  ports,
  runnerConnection,
}: SessionContext): RunnerRequests => {
  /** Ids of requests in progress: a repeated one waits for the same result. */
  const running = new Set<string>()
  let waiting: (() => void)[] = []
  const send = (text: string) => {
    const { connection } = runnerConnection.state()
    if (connection !== null) ports.sockets.send(connection, text)
  }

  const finish = ({ type, requestId }: RequestFrame, result: Record<string, unknown>) => {
    running.delete(requestId)
    if (running.size < MOST_OPEN_REQUESTS) {
      const ready = waiting
      waiting = []
      for (const resolve of ready) resolve()
    }
    const textOf = (value: Readonly<Record<string, unknown>>) =>
      JSON.stringify({ ...value, type: `${type}-result`, requestId })
    const stored = textOf(storedResult(type, result))
    if (stored.length <= MAX_STORED_RESULT) {
      ports.sql.run(
        "INSERT OR REPLACE INTO rpc (request_id, type, result, at) VALUES (?, ?, ?, ?)",
        requestId,
        type,
        stored,
        ports.now(),
      )
    }
    send(textOf(result))
  }

  return {
    open: () => running.size,
    room: () =>
      running.size < MOST_OPEN_REQUESTS
        ? Promise.resolve()
        : new Promise((resolve) => void waiting.push(resolve)),
    handle: (frame) => {
      const { requestId } = frame
      const known = readRow(
        ports.sql,
        resultRow,
        "SELECT result FROM rpc WHERE request_id = ?",
        requestId,
      )
      if (known) return send(known.result)
      if (running.has(requestId)) return
      running.add(requestId)
      ports.answer(frame).then(
        (result) => finish(frame, result),
        (error: unknown) =>
          finish(frame, { error: error instanceof Error ? error.message : String(error) }),
      )
    },
    rejectMalformed: ({ type, requestId, problem }) => {
      if (type === undefined || requestId === undefined) return
      const error = `malformed request: ${problem}`
      send(JSON.stringify({ type: `${type}-result`, requestId, error }))
    },
  }
}
