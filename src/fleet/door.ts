/** The HTTP API of the fleet. A path outside of it is answered by the hub. */
import { z } from "zod"
import type { HubPort } from "./hub-port.ts"
import type { Keeper } from "./keeper.ts"
import type { SandboxProvider } from "./providers/contract.ts"
import { statusOf } from "./core/statuses.ts"
import type { Sweeper } from "./sweeper.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface DoorOptions {
  readonly keeper: Keeper
  readonly sweeper: Sweeper
  readonly store: FleetStore
  readonly provider: SandboxProvider
  /** Whether the request carries the operator's token. */
  readonly isOperator: (request: Request) => Promise<boolean>
  /** Opens the hub's session of a thread and records it in the fleet. Repeating it changes nothing. */
  readonly openThread: (threadKey: string) => Promise<StoredSession>
  readonly hub: HubPort
}

/** Undefined: the path is not the fleet's. */
export type Door = (request: Request) => Promise<Response | undefined>

const MAX_WAIT_MS = 120_000

class ApiError extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const view = (session: StoredSession) => {
  const { status, threadStatus, providerSandboxId } = statusOf(session.life)
  return {
    sessionId: session.id,
    ...(session.threadKey !== undefined && { threadKey: session.threadKey }),
    provider: session.provider,
    status,
    threadStatus,
    providerSandboxId,
    generation: session.life.generation,
    ...(session.life.lastError !== undefined && { lastError: session.life.lastError }),
    updatedAt: session.updatedAt,
  }
}

const verbs = {
  pause: { wanted: "asleep", deep: false, holds: ["paused", "absent"] },
  hibernate: { wanted: "asleep", deep: true, holds: ["absent"] },
  resume: { wanted: "running", deep: false, holds: ["running"] },
  terminate: { wanted: "ended", deep: false, holds: ["ended"] },
} as const

const promptBody = z.object({ message: z.string().min(1), messageId: z.string().min(1).optional() })

export const createDoor = (options: DoorOptions): Door => {
  const { keeper, sweeper, store, provider, hub } = options

  const mustFind = async (id: string): Promise<StoredSession> => {
    const found = await store.find(id)
    if (!found) throw new ApiError(404, "not-found", `there is no session ${id}`)
    return found
  }

  const change = async (id: string, verb: keyof typeof verbs, url: URL) => {
    const before = await mustFind(id)
    if (before.life.phase === "ended" && verb !== "terminate")
      throw new ApiError(409, "already-finished", `the session ${id} has ended`)
    const { wanted, deep, holds } = verbs[verb]
    if (verb === "terminate") await hub.end(id, "ended by a caller of the fleet")
    const changed = await keeper.want(id, wanted, deep)
    if (!url.searchParams.has("wait")) return view(changed ?? before)
    const limit = AbortSignal.timeout(MAX_WAIT_MS)
    const reached = ({ life }: StoredSession) =>
      !life.pending && (holds as readonly string[]).includes(life.phase)
    return view((await keeper.waitFor(id, reached, limit)) ?? before)
  }

  const thread = async (key: string, verb: string, request: Request) => {
    const session = await options.openThread(key)
    if (session.life.phase === "ended")
      throw new ApiError(409, "already-finished", `the session of thread ${key} has ended`)
    if (verb === "stop") await hub.stop(session.id)
    if (verb === "prompt") {
      const body = promptBody.safeParse(await request.json().catch(() => undefined))
      if (!body.success)
        throw new ApiError(400, "bad-request", "send {message, messageId?} as JSON")
      const { message, messageId = crypto.randomUUID() } = body.data
      await hub.prompt(session.id, messageId, message)
    }
    if (verb === "resolve") await keeper.want(session.id, "running")
    return view((await store.find(session.id)) ?? session)
  }

  const route = async (request: Request, url: URL): Promise<unknown> => {
    const [, first, second, third, ...rest] = url.pathname
      .split("/")
      .slice(1)
      .map(decodeURIComponent)
    const at = `${request.method} ${first ?? ""}`
    if (rest.length > 0) return undefined
    if (at === "GET sandboxes" && second === undefined)
      return { sandboxes: (await store.list()).map(view) }
    if (at === "GET providers" && second === undefined)
      return { providers: [{ name: provider.name, capabilities: provider.can }] }
    if (at === "POST sweep" && second === undefined)
      return sweeper.sweep(url.searchParams.has("dryRun"))
    if (first === "sandbox" && second !== undefined) {
      if (request.method === "GET" && third === "status") return view(await mustFind(second))
      if (request.method === "DELETE" && third === undefined) {
        await mustFind(second)
        await store.forget(second)
        return { forgotten: second }
      }
      const verb = (Object.keys(verbs) as (keyof typeof verbs)[]).find((name) => name === third)
      if (request.method === "POST" && verb) return change(second, verb, url)
    }
    if (at === "POST threads" && second && third && ["resolve", "prompt", "stop"].includes(third))
      return thread(second, third, request)
    return undefined
  }

  return async (request) => {
    const url = new URL(request.url)
    if (!/^\/api\/(sandboxes|sandbox|sweep|providers|threads)(\/|$)/.test(url.pathname))
      return undefined
    const requestId = crypto.randomUUID()
    const refuse = (status: number, code: string, error: string) =>
      Response.json({ error, code, requestId }, { status })
    if (!(await options.isOperator(request)))
      return refuse(401, "unauthorized", "send the operator's token as a bearer token")
    try {
      const body = await route(request, url)
      return body === undefined
        ? refuse(404, "not-found", `${request.method} ${url.pathname} does not exist`)
        : Response.json(body)
    } catch (error) {
      if (error instanceof ApiError) return refuse(error.status, error.code, error.message)
      return refuse(500, "failed", "the request failed; the log of the server has the reason")
    }
  }
}
