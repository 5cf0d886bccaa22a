/** The handlers of `/v1/fs`: requests and responses in the published shapes of sandbox-agent. */
import type { Clock } from "../../../lib/clock.ts"
import type { Client } from "./client.ts"
import { createEdit } from "./edit.ts"
import { beginEvents } from "./event-stream.ts"
import type { Files } from "./files.ts"
import { invalid, Problem, problemOf } from "./problem.ts"
import { parseRange } from "./range.ts"
import { editBody, moveBody } from "./requests.ts"
import { unpackBatch } from "./upload-batch.ts"
import { watchDirectory } from "./watch.ts"

export type Handler = (client: Client) => Promise<void>

export interface FileRouteOptions {
  readonly root: string
  readonly files: Files
  readonly clock: Clock
}

/** The largest file, and the largest sum of the files of a batch, that one request may write. */
const MAX_UPLOAD_BYTES = 16 * 1024 ** 3
const READ_BYTES = 256 * 1024

export const fileRoutes = ({
  root,
  files,
  clock,
}: FileRouteOptions): Readonly<Record<string, Handler>> => {
  const edit = createEdit(files)
  return {
    "GET /v1/fs/entries": async (client) =>
      client.sendJson(await files.list(client.query("path") ?? ".")),
    "GET /v1/fs/stat": async (client) =>
      client.sendJson(await files.stat(required(client, "path"))),
    "GET /v1/fs/file": (client) => download(client, files),
    "HEAD /v1/fs/file": (client) => download(client, files),
    "PUT /v1/fs/file": (client) => upload(client, files),
    "POST /v1/fs/mkdir": async (client) => {
      const path = required(client, "path")
      await files.makeDirectory(path)
      client.sendJson({ path: files.absolute(path) })
    },
    "POST /v1/fs/move": async (client) => {
      const { from, to, overwrite = false } = await client.json(moveBody)
      await files.move(from, to, overwrite)
      client.sendJson({ from: files.absolute(from), to: files.absolute(to) })
    },
    "DELETE /v1/fs/entry": async (client) => {
      const path = required(client, "path")
      await files.remove(path, isTrue(client.query("recursive")))
      client.sendJson({ path: files.absolute(path) })
    },
    "POST /v1/fs/edit": async (client) => client.sendJson(await edit(await client.json(editBody))),
    "POST /v1/fs/upload-batch": async (client) => {
      if (!/^application\/x-tar\b/i.test(client.header("content-type") ?? "")) {
        throw invalid("content-type must be application/x-tar")
      }
      const options = { root, files, maxBytes: MAX_UPLOAD_BYTES }
      client.sendJson(await unpackBatch(client.query("path") ?? ".", client.body(), options))
    },
    "GET /v1/fs/watch": async (client) => {
      const path = client.query("path") ?? "."
      const recursive = isTrue(client.query("recursive"))
      const events = { current: undefined as ReturnType<typeof beginEvents> | undefined }
      const watch = await watchDirectory(files, path, recursive, clock, (changes) => {
        void events.current?.send("change", changes)
      })
      events.current = beginEvents(client, clock)
      void events.current.send("ready", { path: files.absolute(path), truncated: watch.truncated })
      await untilGone(client)
      await watch.close()
    },
  }
}

/**
 * Every piece of an upload is a buffer of its own, outside the heap that the garbage collector watches. It is run after
 * this many bytes, so that a fast upload does not keep tens of megabytes of used buffers.
 */
const COLLECT_BYTES = 8 * 1024 * 1024

const download = async (client: Client, files: Files): Promise<void> => {
  const path = required(client, "path")
  const { file, size, modified } = await files.openForReading(path)
  try {
    const range = parseRange(client.header("range"), size)
    const common = {
      "content-type": "application/octet-stream",
      "accept-ranges": "bytes",
      "last-modified": modified.toUTCString(),
    }
    if (range === "unsatisfiable") {
      client.begin(416, { ...common, "content-range": `bytes */${size}`, "content-length": "0" })
      return client.finish()
    }
    const { start, end } = range === "whole" ? { start: 0, end: size } : range
    client.begin(range === "whole" ? 200 : 206, {
      ...common,
      "content-length": String(end - start),
      ...(range !== "whole" && { "content-range": `bytes ${start}-${end - 1}/${size}` }),
    })
    if (client.method === "HEAD") return client.finish()
    // One buffer for all reads: `write` resolves when the socket has taken its bytes.
    const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, end - start))
    let at = start
    while (at < end && !client.gone.aborted) {
      const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, end - at), at)
      // The file has become shorter: the announced length cannot be sent.
      if (bytesRead === 0) return client.abort()
      at += bytesRead
      await client.write(buffer.subarray(0, bytesRead))
    }
    client.finish()
  } finally {
    await file.close()
  }
}

const upload = async (client: Client, files: Files): Promise<void> => {
  const path = required(client, "path")
  if ((client.bodyLength ?? 0) > MAX_UPLOAD_BYTES) throw tooLarge()
  const draft = await files.draft(path)
  let bytesWritten = 0
  let uncollected = 0
  try {
    for await (const piece of client.body()) {
      bytesWritten += piece.length
      if (bytesWritten > MAX_UPLOAD_BYTES) throw tooLarge()
      await draft.write(piece)
      uncollected += piece.length
      if (uncollected < COLLECT_BYTES) continue
      uncollected = 0
      Bun.gc(true)
    }
    await draft.commit()
  } catch (error) {
    throw problemOf(error, files.absolute(path))
  } finally {
    await draft.discard()
  }
  client.sendJson({ path: files.absolute(path), bytesWritten })
}

const tooLarge = (): Problem =>
  new Problem(413, "invalid_request", `the file is larger than ${MAX_UPLOAD_BYTES} bytes`)

const required = (client: Client, name: string): string => {
  const value = client.query(name)
  if (value === undefined || value === "") throw invalid(`the parameter ${name} is missing`)
  return value
}

const isTrue = (value: string | undefined): boolean => value === "true" || value === "1"

const untilGone = ({ gone }: Client): Promise<void> =>
  new Promise((resolve) => {
    if (gone.aborted) resolve()
    else gone.addEventListener("abort", () => resolve())
  })
