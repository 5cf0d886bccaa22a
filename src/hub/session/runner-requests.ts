/** Requests of the runner: each is carried out once; a repeated request gets the stored result. */
import type { Parsed, RequestFrame } from "../../wire/frames/index.ts"
import type { SessionContext } from "./session-context.ts"
import { readRow, resultRow } from "./rows.ts"
import { storedResult } from "./stored-result.ts"

export interface RunnerRequests {
  readonly handle: (frame: RequestFrame) => void
  /** A malformed request gets an error as its result, if its id could be read. */
  readonly rejectMalformed: (parsed: Extract<Parsed<unknown>, { ok: false }>) => void
}

/** A longer result does not fit into a row: it is sent but not stored. */
const MAX_STORED_RESULT = 1_000_000

export const createRunnerRequests = ({
  ports,
  runnerConnection,
}: SessionContext): RunnerRequests => {
  /** Ids of requests in progress: a repeated one waits for the same result. */
  const running = new Set<string>()
  const send = (text: string) => {
    const { connection } = runnerConnection.state()
    if (connection !== null) ports.sockets.send(connection, text)
  }

  const finish = ({ type, requestId }: RequestFrame, result: Record<string, unknown>) => {
    running.delete(requestId)
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
