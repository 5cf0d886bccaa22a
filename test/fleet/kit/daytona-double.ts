/**
 * A double of Daytona: its REST API and the toolbox of the sandboxes. States change as there, by way of a state in between
 * that one read sees. The real SDK validates it.
 */
import { type Cloud, type CloudBox, createCloud } from "./cloud.ts"
import { type HttpDouble, startHttpDouble } from "./http-double.ts"

export const DAYTONA_KEY = `dtn_${"7c".repeat(32)}`

export interface DaytonaDouble extends HttpDouble {
  readonly apiUrl: string
  readonly cloud: Cloud
  /** The next create ends in this state. */
  readonly failNextCreate: (state: "error" | "build_failed") => void
  /** Sandboxes that are containers, which Daytona cannot pause. */
  readonly containers: Set<string>
}

interface Body {
  readonly name?: string
  readonly snapshot?: string
  readonly env?: Readonly<Record<string, string>>
  readonly labels?: Readonly<Record<string, string>>
  readonly volumes?: readonly { readonly volumeId: string; readonly mountPath: string }[]
  readonly cpu?: number
  readonly memory?: number
  readonly disk?: number
  readonly gpu?: number
}

const PAGE = 2
const DEFAULT_SNAPSHOT = "default"

const problem = (status: number, message: string): Response =>
  Response.json({ statusCode: status, message, error: "Error" }, { status })
const notFound = (what: string) => problem(404, `${what} not found`)

const finalState = { running: "started", paused: "paused", stopped: "stopped" } as const

const snapshotDto = (name: string) => ({
  id: `id-of-${name}`,
  name,
  state: "active",
  general: false,
  size: 1,
  entrypoint: null,
  cpu: 1,
  gpu: 0,
  mem: 1,
  disk: 3,
  errorReason: null,
  createdAt: new Date().toISOString(),
  updatedAt: new Date().toISOString(),
  lastUsedAt: null,
  sourceSandboxId: null,
})

export const startDaytonaDouble = async (): Promise<DaytonaDouble> => {
  const cloud = createCloud({
    idOf: (count) => `00000000-0000-4000-8000-${String(count).padStart(12, "0")}`,
  })
  /** States that the next read sees before the final one. */
  const passing = new Map<string, string>()
  const broken = new Map<string, string>()
  const snapshotIds = new Map<string, string>()
  const containers = new Set<string>()
  const next: { createFails?: string | undefined } = {}

  const dto = (box: CloudBox, origin: string, state: string) => ({
    id: box.id,
    organizationId: "organization",
    name: box.name,
    snapshot: box.image,
    user: "daytona",
    env: box.environment,
    labels: box.labels,
    public: false,
    networkBlockAll: false,
    target: "eu",
    cpu: 1,
    gpu: 0,
    memory: 1,
    disk: 3,
    state,
    ...(broken.has(box.id) && { errorReason: "the runner is out of disk" }),
    createdAt: new Date(box.createdAt).toISOString(),
    updatedAt: new Date(box.createdAt).toISOString(),
    toolboxProxyUrl: `${origin}/toolbox`,
  })

  /** The state that a read sees. A sandbox that is being destroyed is gone after the read. */
  const readState = (box: CloudBox): string => {
    const state = passing.get(box.id) ?? broken.get(box.id) ?? finalState[box.state]
    passing.delete(box.id)
    if (state === "destroying") cloud.end(box.id)
    return state
  }

  const create = (body: Body, origin: string): Response => {
    if (body.cpu || body.memory || body.disk || body.gpu)
      return problem(400, "Cannot specify Sandbox resources when using a snapshot")
    const name = body.name ?? `sandbox-${crypto.randomUUID()}`
    if ([...cloud.boxes.values()].some((box) => box.name === name))
      return problem(409, `Sandbox with name ${name} already exists`)
    const names = new Map([...cloud.volumes].map(([volume, id]) => [id, volume]))
    const mounts = (body.volumes ?? []).map(({ volumeId, mountPath }) => [
      mountPath,
      names.get(volumeId),
    ])
    if (mounts.some(([, volume]) => volume === undefined)) return problem(400, "Volume not found")
    const box = cloud.create({
      name,
      image: body.snapshot ?? DEFAULT_SNAPSHOT,
      labels: body.labels ?? {},
      environment: body.env ?? {},
      volumes: Object.fromEntries(mounts) as Record<string, string>,
      lifeMs: 3_600_000,
    })
    if (!box) return problem(400, `Snapshot ${body.snapshot} not found. Did you add it?`)
    if (next.createFails !== undefined) broken.set(box.id, next.createFails)
    delete next.createFails
    return Response.json(dto(box, origin, "creating"))
  }

  const list = (query: URLSearchParams, origin: string): Response => {
    const labels = Object.entries(JSON.parse(query.get("labels") ?? "{}") as Record<string, string>)
    const found = [...cloud.boxes.values()].filter((box) =>
      labels.every(([name, value]) => box.labels[name] === value),
    )
    const from = Number(query.get("cursor") ?? 0)
    const until = from + PAGE
    return Response.json({
      items: found.slice(from, until).map((box) => dto(box, origin, readState(box))),
      nextCursor: found.length > until ? String(until) : null,
    })
  }

  const change = (box: CloudBox, origin: string, by: string, to: CloudBox["state"]): Response => {
    if (box.state === to) return problem(400, `Sandbox is ${finalState[to]} already`)
    box.state = to
    passing.set(box.id, by)
    return Response.json(dto(box, origin, by))
  }

  const ofSandbox = (
    box: CloudBox,
    verb: string,
    { body, query, origin }: { body: Body; query: URLSearchParams; origin: string },
  ): Response => {
    switch (verb) {
      case "GET ":
        return Response.json(dto(box, origin, readState(box)))
      case "DELETE ":
        passing.set(box.id, "destroying")
        return Response.json(dto(box, origin, "destroying"))
      case "POST start":
        return change(box, origin, "starting", "running")
      case "POST stop":
        return change(box, origin, "stopping", "stopped")
      case "POST pause":
        if (containers.has(box.id)) return problem(400, "Pausing is not supported")
        return change(box, origin, "pausing", "paused")
      case "POST last-activity":
        return new Response(null, { status: 201 })
      case "POST snapshot":
        if (cloud.snapshots.has(body.name ?? "")) return problem(409, "Snapshot exists already")
        cloud.snapshot(box, body.name ?? "")
        snapshotIds.set(`id-of-${body.name}`, body.name ?? "")
        passing.set(box.id, "snapshotting")
        return Response.json(dto(box, origin, "snapshotting"))
      default:
        break
    }
    const [, port, signed] = /^GET ports\/(\d+)\/(signed-)?preview-url$/.exec(verb) ?? []
    if (port === undefined) return notFound("Route")
    if (signed !== undefined) {
      const seconds = Number(query.get("expiresInSeconds") ?? 60)
      if (seconds < 1 || seconds > 86_400)
        return problem(400, "expiresInSeconds must be between 1 second and 24 hours")
      const token = crypto.randomUUID().replaceAll("-", "").slice(0, 16)
      const url = `https://${port}-${token}.proxy.daytona.test`
      return Response.json({ sandboxId: box.id, port: Number(port), token, url })
    }
    return Response.json({
      sandboxId: box.id,
      url: `https://${port}-${box.id}.proxy.daytona.test`,
      token: `preview-token-${crypto.randomUUID()}`,
    })
  }

  const toolbox = async (request: Request, id: string): Promise<Response> => {
    const box = cloud.boxes.get(id)
    if (!box || box.state !== "running") return problem(400, "Sandbox is not running")
    const body = (await request.json()) as {
      readonly command: string
      readonly cwd?: string
      readonly envs?: Readonly<Record<string, string>>
    }
    const output = await cloud.run(box, {
      argv: ["/bin/sh", "-c", body.command],
      cwd: body.cwd,
      ...(body.envs && { environment: body.envs }),
    })
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
    // Both outputs are one text there.
    return Response.json({
      exitCode: output.exitCode,
      result: text(output.stdout) + text(output.stderr),
    })
  }

  const volumeDto = (name: string) => ({
    id: cloud.volumes.get(name) ?? "",
    name,
    organizationId: "organization",
    state: passing.get(name) ?? "ready",
    createdAt: new Date().toISOString(),
    updatedAt: new Date().toISOString(),
    errorReason: null,
  })

  const volumes = (method: string, parts: readonly string[], body: Body): Response => {
    if (method === "POST") {
      const name = body.name ?? ""
      if (cloud.volumes.has(name)) return problem(409, `Volume ${name} already exists`)
      cloud.volumes.set(name, `volume-${name}`)
      passing.set(name, "pending_create")
      return Response.json(volumeDto(name))
    }
    const [first = "", second = ""] = parts
    const name = first === "by-name" ? decodeURIComponent(second) : first.replace(/^volume-/, "")
    if (!cloud.volumes.has(name)) return notFound(`Volume ${name}`)
    if (method === "DELETE") {
      cloud.volumes.delete(name)
      return new Response(null, { status: 200 })
    }
    const seen = volumeDto(name)
    passing.delete(name)
    return Response.json(seen)
  }

  const listSnapshots = (query: URLSearchParams): Response => {
    const page = Number(query.get("page") ?? 1)
    const size = Math.min(Number(query.get("limit") ?? PAGE), PAGE)
    const names = [...cloud.snapshots.keys()]
    return Response.json({
      items: names.slice((page - 1) * size, page * size).map(snapshotDto),
      total: names.length,
      page,
      totalPages: Math.ceil(names.length / size),
    })
  }

  const snapshots = (method: string, key: string): Response => {
    const name = snapshotIds.get(key) ?? key
    if (!cloud.snapshots.has(name)) return notFound(`Snapshot ${name}`)
    // A snapshot is removed by its id only.
    if (method === "DELETE" && !snapshotIds.has(key)) return notFound(`Snapshot ${name}`)
    if (method === "DELETE") {
      cloud.removeSnapshot(name)
      return new Response(null, { status: 200 })
    }
    return Response.json(snapshotDto(name))
  }

  const double = await startHttpDouble([DAYTONA_KEY], async (request) => {
    const url = new URL(request.url)
    const origin = `http://${request.headers.get("host")}`
    const { method } = request
    if (request.headers.get("authorization") !== `Bearer ${DAYTONA_KEY}`)
      return problem(401, "Invalid credentials")
    const [root = "", kind = "", key = "", ...rest] = url.pathname.split("/").slice(1)
    if (root === "toolbox") return toolbox(request, kind)
    const text = await request.text()
    const body = (text === "" ? {} : JSON.parse(text)) as Body
    if (kind === "volumes") return volumes(method, [key, ...rest], body)
    if (kind === "snapshots")
      return key === ""
        ? listSnapshots(url.searchParams)
        : snapshots(method, decodeURIComponent(key))
    if (kind !== "sandbox") return notFound("Route")
    if (key === "") return method === "POST" ? create(body, origin) : list(url.searchParams, origin)
    const box = [...cloud.boxes.values()].find((one) => one.id === key || one.name === key)
    return box
      ? ofSandbox(box, `${method} ${rest.join("/")}`, { body, query: url.searchParams, origin })
      : notFound(`Sandbox with ID or name ${key}`)
  })
  return {
    ...double,
    apiUrl: `${double.url}/api`,
    cloud,
    containers,
    failNextCreate: (state) => void (next.createFails = state),
    stop: async () => {
      await double.stop()
      cloud.remove()
    },
  }
}
