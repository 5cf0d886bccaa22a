/** The handlers of `/v1/processes`: requests and responses in the published shapes of sandbox-agent. */
import type { Clock } from "../../../lib/clock.ts"
import { type Background, BACKGROUND_LIMITS } from "./background.ts"
import type { Client } from "./client.ts"
import { beginEvents } from "./event-stream.ts"
import type { Handler } from "./file-routes.ts"
import type { LogEntry, LogQuery } from "./log-ring-state.ts"
import type { Launcher } from "./program.ts"
import { invalid } from "./problem.ts"
import { inputBody, resizeBody, runBody, signalBody, startBody } from "./requests.ts"
import { RUN_LIMITS, runProgram } from "./run-program.ts"

export interface ProcessRouteOptions {
  readonly launcher: Launcher
  readonly background: Background
  readonly clock: Clock
}

export const processRoutes = ({
  launcher,
  background,
  clock,
}: ProcessRouteOptions): Readonly<Record<string, Handler>> => ({
  "POST /v1/processes/run": async (client) =>
    client.sendJson(await runProgram(await client.json(runBody), launcher, clock, client.gone)),
  "GET /v1/processes/config": async (client) =>
    client.sendJson({
      maxConcurrentProcesses: BACKGROUND_LIMITS.maxProcesses,
      defaultRunTimeoutMs: RUN_LIMITS.defaultTimeoutMs,
      maxRunTimeoutMs: RUN_LIMITS.maxTimeoutMs,
      maxOutputBytes: RUN_LIMITS.maxOutputBytes,
      maxLogBytesPerProcess: BACKGROUND_LIMITS.maxLogBytes,
      maxInputBytesPerRequest: BACKGROUND_LIMITS.maxInputBytes,
    }),
  "POST /v1/processes": async (client) =>
    client.sendJson(await background.start(await client.json(startBody))),
  "GET /v1/processes": async (client) => client.sendJson({ processes: background.list() }),
  "GET /v1/processes/:id": async (client) => client.sendJson(background.get(idOf(client))),
  "DELETE /v1/processes/:id": async (client) => {
    background.remove(idOf(client))
    client.sendNothing()
  },
  "POST /v1/processes/:id/stop": async (client) =>
    client.sendJson(await background.end(idOf(client), "SIGTERM", waitOf(client))),
  "POST /v1/processes/:id/kill": async (client) =>
    client.sendJson(await background.end(idOf(client), "SIGKILL", waitOf(client))),
  "POST /v1/processes/:id/signal": async (client) => {
    const { signal } = await client.json(signalBody)
    client.sendJson(background.signal(idOf(client), signal))
  },
  "POST /v1/processes/:id/input": async (client) => {
    const { data, encoding = "base64" } = await client.json(inputBody)
    const bytes = encoding === "base64" ? fromBase64(data) : Buffer.from(data)
    client.sendJson({ bytesWritten: background.input(idOf(client), bytes) })
  },
  "POST /v1/processes/:id/terminal/resize": async (client) => {
    const { cols, rows } = await client.json(resizeBody)
    background.resize(idOf(client), cols, rows)
    client.sendJson({ cols, rows })
  },
  "GET /v1/processes/:id/logs": async (client) => {
    const id = idOf(client)
    const query = logQueryOf(client)
    const entries = background.logs(id, query)
    if (client.query("follow") === "true") return follow(client, id, query, background, clock)
    client.sendJson({
      processId: id,
      stream: query.stream ?? "combined",
      entries: entries.map(published),
    })
  },
})

/** Sends entries by their sequence: a slow client gets what is still kept, in order, and can see a gap by the numbers. */
const follow = async (
  client: Client,
  id: string,
  query: LogQuery,
  background: Background,
  clock: Clock,
): Promise<void> => {
  const events = beginEvents(client, clock)
  let changed = Promise.withResolvers<void>()
  const stop = background.follow(id, () => changed.resolve())
  client.gone.addEventListener("abort", () => changed.resolve())
  let since = query.since ?? 0
  let { tail } = query
  try {
    while (!client.gone.aborted) {
      changed = Promise.withResolvers<void>()
      const isOver = background.get(id).status === "exited"
      for (const entry of background.logs(id, { ...query, since, tail })) {
        await events.send("log", published(entry), entry.sequence)
        since = entry.sequence
      }
      tail = undefined
      const isComplete = background.logs(id, { ...query, since }).length === 0
      if (isOver && isComplete) return events.end()
      if (isComplete) await changed.promise
    }
  } finally {
    stop()
  }
}

const published = ({ data, ...entry }: LogEntry) => ({
  ...entry,
  data: Buffer.from(data).toString("base64"),
  encoding: "base64",
})

const idOf = ({ params }: Client): string => params["id"] ?? ""

const waitOf = (client: Client): number | undefined => numberOf(client, "waitMs")

const numberOf = (client: Client, name: string): number | undefined => {
  const value = client.query(name)
  if (value === undefined || value === "") return undefined
  if (!/^\d{1,15}$/.test(value)) throw invalid(`the parameter ${name} must be a number`)
  return Number(value)
}

const streams = ["stdout", "stderr", "pty", "combined"] as const

const logQueryOf = (client: Client): LogQuery => {
  const asked = client.query("stream")
  const stream = streams.find((name) => name === asked)
  if (asked !== undefined && stream === undefined) {
    throw invalid(`the parameter stream must be one of ${streams.join(", ")}`)
  }
  return { stream, since: numberOf(client, "since"), tail: numberOf(client, "tail") }
}

const fromBase64 = (data: string): Buffer => {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data) || data.length % 4 !== 0) {
    throw invalid("data is not base64: send it as base64, or with encoding utf8")
  }
  return Buffer.from(data, "base64")
}
