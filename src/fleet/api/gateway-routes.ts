/** Routes that are passed on to the gateway of a session's sandbox, with a control token. A sleeping sandbox is woken. */
import { posix } from "node:path"
import { z } from "zod"
import { signControlToken } from "../../lib/control-token.ts"
import { parseJson } from "../../lib/json.ts"
import { describeError } from "../../lib/log.ts"
import { readLimitedText } from "../../lib/read-limited.ts"
import { DISPLAY_FOLDER } from "../../wire/frames/display.ts"
import { bodies } from "../core/bodies.ts"
import { isGivenUp } from "../core/life.ts"
import type { RouteName } from "../core/routes.ts"
import type { StoredSession } from "../store/ports.ts"
import {
  type ApiCall,
  ApiError,
  type ApiParts,
  containerUrlOf,
  gatewayAddressOf,
  type Handler,
  MAX_ANSWER,
  MAX_WAIT_MS,
  readBody,
  refuseAboveQuota,
  refuseAsleepElsewhere,
  refuseEnded,
  wake,
} from "./api-call.ts"

type Name = Extract<
  RouteName,
  | "file-list"
  | "file-read"
  | "upload"
  | "exec"
  | "artifacts"
  | "sync"
  | "restore"
  | "bootstrap-website"
  | "restart-dev-server"
>

const UPLOADS = "uploads"
const DEEPEST = 4
const MOST_ARTIFACTS = 500
const MOST_FOLDERS = 100

interface Artifact {
  readonly path: string
  readonly size: number
  readonly modified: string
}

const place = z.looseObject({ path: z.string() })
const entries = z.array(
  z.object({
    name: z.string(),
    path: z.string(),
    entryType: z.enum(["file", "directory"]),
    size: z.number(),
    modified: z.string(),
  }),
)
const websiteAnswer = z.looseObject({ port: z.number().nullable() })

const CALL_MS = 130_000
/** A program may run for five minutes (`RUN_LIMITS` of the runner), which ends it itself. */
const EXEC_MS = 310_000
const MAX_UPLOAD = 100 * 1024 * 1024
/** An upload with the frame of its parts: the largest body of all routes. */
export const MAX_FORM = MAX_UPLOAD + 1024 * 1024

export const tooMuchUploaded = () =>
  new ApiError(
    413,
    "too-large",
    "an upload may have 100 MB in all: send the files in several requests",
  )

/** A sandbox may answer anything, of any length. */
const readAnswer = async <Schema extends z.ZodType>(
  schema: Schema,
  answer: Response,
): Promise<z.output<Schema>> => {
  const text = await readLimitedText(answer, MAX_ANSWER)
  if (text === undefined)
    throw new ApiError(502, "answer-too-long", "the answer of the sandbox is too long")
  const parsed = schema.safeParse(parseJson(text))
  if (parsed.success) return parsed.data
  throw new ApiError(502, "bad-answer", "the answer of the sandbox is not understood")
}

/** Only the last part of the name, in letters that every file system has. */
const safeName = (name: string, index: number): string => {
  const last = name.split(/[/\\]/).at(-1) ?? ""
  const safe = last
    .replaceAll(/[^\w.-]+/g, "_")
    .replace(/^\.+/, "")
    .slice(-120)
  return safe === "" ? `file-${index + 1}` : safe
}

/** Two files of one request never get the same name: the later would replace the earlier. */
const uploadNames = (given: readonly string[]): readonly string[] => {
  const names = new Set<string>()
  for (const [index, name] of given.entries()) {
    const safe = safeName(name, index)
    const [, stem = safe, end = ""] = /^(.+?)(\.[^.]*)?$/s.exec(safe) ?? []
    let next = safe
    for (let number = 2; names.has(next); number += 1) next = `${stem}-${number}${end}`
    names.add(next)
  }
  return [...names]
}

export const gatewayRoutes = (parts: ApiParts): Readonly<Record<Name, Handler>> => {
  const { keeper, store, provider, hub, log, now } = parts

  const awake = async (session: StoredSession): Promise<StoredSession> => {
    refuseEnded(session)
    refuseAsleepElsewhere(session)
    if (session.life.phase !== "running") await refuseAboveQuota(parts, session)
    await wake(parts, session)
    const isThere = ({ life }: StoredSession) => life.phase === "running" || isGivenUp(life)
    const found = await keeper.waitFor(session.id, isThere, AbortSignal.timeout(MAX_WAIT_MS))
    if (found?.life.phase === "running") return found
    const why = found?.life.lastError ?? "it takes longer than expected"
    throw new ApiError(503, "no-sandbox", `the sandbox was not started: ${why}`, 10)
  }

  const keyOf = async ({ id, kind, environment, life }: StoredSession): Promise<string> => {
    const key =
      kind === "external" ? environment["JWT_SECRET"] : await hub.gatewayKey(id, life.generation)
    if (key === undefined)
      throw new ApiError(
        501,
        "no-gateway-key",
        "the hub has no gateway secret: set HUB_GATEWAY_SECRET",
      )
    return key
  }

  const pass = async (
    { session: given, request }: ApiCall,
    method: string,
    path: string,
    body?: string | Blob,
    type = request.headers.get("content-type"),
    ms = CALL_MS,
  ): Promise<Response> => {
    const session = await awake(given)
    const address = await gatewayAddressOf(provider, session)
    if (!address)
      throw new ApiError(
        503,
        "no-address",
        "the sandbox has no address at the moment: try again",
        5,
      )
    const token = await signControlToken({
      key: await keyOf(session),
      sessionId: session.id,
      jti: crypto.randomUUID(),
      now: now(),
    })
    const response = await fetch(`${address.url}${path}`, {
      method,
      headers: {
        ...address.headers,
        authorization: `Bearer ${token}`,
        ...(typeof body === "string" && type !== null && { "content-type": type }),
      },
      ...(body !== undefined && { body }),
      signal: AbortSignal.timeout(ms),
      // Without a limit of its own for silent connections, which is five minutes.
      timeout: false,
      redirect: "manual",
    }).catch((error: unknown) => {
      log.warn("fleet.gateway-away", { session: session.id, error: describeError(error) })
      // What was asked may have been done.
      if (error instanceof DOMException && error.name === "TimeoutError")
        throw new ApiError(504, "too-late", "the sandbox has not answered in time")
      throw new ApiError(503, "sandbox-away", "the sandbox does not answer: try again", 5)
    })
    // Content of the sandbox must never run as a page of the fleet's origin.
    const headers = new Headers({ "x-content-type-options": "nosniff" })
    headers.set("content-type", response.headers.get("content-type") ?? "application/octet-stream")
    headers.set("content-security-policy", "sandbox; default-src 'none'")
    return new Response(response.body, { status: response.status, headers })
  }

  const pathOf = ({ url }: ApiCall): string =>
    encodeURIComponent(url.searchParams.get("path") ?? ".")

  /** An operation of the sandbox with a body of JSON. */
  const operate = (call: ApiCall, path: string, body: object): Promise<Response> =>
    pass(call, "POST", path, JSON.stringify(body), "application/json")

  /** The sandbox does not know the address that people reach it by. */
  const website = async (call: ApiCall, path: string, body: object): Promise<object> => {
    const answer = await operate(call, path, body)
    if (!answer.ok) return answer
    const started = await readAnswer(websiteAnswer, answer)
    const session = (await store.find(call.session.id)) ?? call.session
    return {
      ...started,
      containerUrl: started.port === null ? null : await containerUrlOf(provider, session),
    }
  }

  /** The agent's directory in the workspace: the clone of the first repository, or `.` without one. */
  const agentDirectoryOf = async (call: ApiCall): Promise<string> => {
    const answer = await pass(call, "GET", "/v1/agent-directory")
    if (!answer.ok) await answer.body?.cancel()
    // A runner of an earlier version.
    if (answer.status === 404) return "."
    if (!answer.ok) throw new ApiError(502, "no-directory", `the sandbox answered ${answer.status}`)
    return (await readAnswer(place, answer)).path
  }

  const listArtifacts = async (call: ApiCall, directory: string): Promise<readonly Artifact[]> => {
    const isAbsolute = directory !== "."
    const found: Artifact[] = []
    let folders = 0
    const list = async (folder: string, depth: number): Promise<void> => {
      folders += 1
      const query = encodeURIComponent(folder)
      const answer = await pass(call, "GET", `/v1/fs/entries?path=${query}`)
      if (!answer.ok) await answer.body?.cancel()
      // The agent has not made the folder.
      if (answer.status === 404) return
      if (!answer.ok) throw new ApiError(502, "not-listed", `the sandbox answered ${answer.status}`)
      for (const entry of await readAnswer(entries, answer)) {
        if (found.length >= MOST_ARTIFACTS) return
        const { entryType, size, modified } = entry
        const path = isAbsolute ? entry.path : `${folder}/${entry.name}`
        if (entryType === "file") found.push({ path, size, modified })
        else if (depth < DEEPEST && folders < MOST_FOLDERS) await list(path, depth + 1)
      }
    }
    await list(posix.join(directory, DISPLAY_FOLDER), 1)
    return found
  }

  return {
    artifacts: async (call) => ({
      artifacts: await listArtifacts(call, await agentDirectoryOf(call)),
    }),
    sync: (call) => operate(call, "/api/workspace/save", {}),
    restore: (call) => operate(call, "/api/workspace/restore", {}),
    "bootstrap-website": (call) =>
      website(call, "/api/website", readBody(bodies["bootstrap-website"], call.body)),
    "restart-dev-server": (call) =>
      website(call, "/api/website/restart", readBody(bodies["restart-dev-server"], call.body)),
    "file-list": (call) => pass(call, "GET", `/v1/fs/entries?path=${pathOf(call)}`),
    "file-read": (call) => pass(call, "GET", `/v1/fs/file?path=${pathOf(call)}`),
    upload: async (call) => {
      const form = await call.form()
      const files = form ? [...form.values()].filter((one) => one instanceof File) : []
      if (files.length === 0)
        throw new ApiError(400, "bad-request", "send files as multipart/form-data")
      if (files.reduce((sum, { size }) => sum + size, 0) > MAX_UPLOAD) throw tooMuchUploaded()
      const paths: string[] = []
      const absolute: string[] = []
      const names = uploadNames(files.map(({ name }) => name))
      for (const [index, file] of files.entries()) {
        const path = `${UPLOADS}/${names[index]}`
        const stored = await pass(call, "PUT", `/v1/fs/file?path=${encodeURIComponent(path)}`, file)
        if (!stored.ok) return stored
        const text = await readLimitedText(stored, MAX_ANSWER)
        const written = place.safeParse(parseJson(text ?? ""))
        if (written.success) absolute.push(written.data.path)
        paths.push(path)
      }
      // Not into the clone: it may not exist yet, and the agent would commit the files.
      const isElsewhere = absolute.length === paths.length && (await agentDirectoryOf(call)) !== "."
      return { paths: isElsewhere ? absolute : paths }
    },
    exec: (call) => pass(call, "POST", "/v1/processes/run", call.body, undefined, EXEC_MS),
  }
}
