/** A double of E2B: its REST API, and envd's process API as the sandboxes have it. The real SDK validates it. */
import { type Cloud, CLOUD_IMAGE, type CloudBox, createCloud } from "./cloud.ts"
import { type HttpDouble, startHttpDouble } from "./http-double.ts"

export const E2B_KEY = `e2b_${"5a".repeat(20)}`

export interface E2bDouble extends HttpDouble {
  readonly cloud: Cloud
}

interface Body {
  readonly templateID?: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly envVars?: Readonly<Record<string, string>>
  readonly timeout?: number
  readonly autoPause?: boolean
  readonly name?: string
  readonly volumeMounts?: readonly { readonly name: string; readonly path: string }[]
}

const DEFAULT_TIMEOUT = 300
const PAGE = 2
const TEAM = "team"

const problem = (code: number, message: string): Response =>
  Response.json({ code, message }, { status: code })
const notFound = (what: string) => problem(404, `${what} was not found`)

const envdToken = (box: CloudBox) => `envd-token-of-${box.id}`

const identity = (box: CloudBox) => ({
  sandboxID: box.id,
  templateID: box.image,
  clientID: "client",
  envdVersion: "0.5.0",
  envdAccessToken: envdToken(box),
  domain: "sandboxes.test",
})

const listed = (box: CloudBox) => ({
  sandboxID: box.id,
  templateID: box.image,
  clientID: "client",
  envdVersion: "0.5.0",
  cpuCount: 2,
  memoryMB: 512,
  diskSizeMB: 1024,
  startedAt: new Date(box.createdAt).toISOString(),
  endAt: new Date(box.endAt).toISOString(),
  state: box.state,
  metadata: box.labels,
})

/** One message of a Connect stream: a flag, the length of four bytes, JSON. */
const envelope = (flag: number, message: unknown): Uint8Array => {
  const json = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt8(flag, 0)
  head.writeUInt32BE(json.length, 1)
  return Buffer.concat([head, json])
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64")

interface StartRequest {
  readonly process: {
    readonly cmd: string
    readonly args?: readonly string[]
    readonly envs?: Readonly<Record<string, string>>
    readonly cwd?: string
  }
  readonly tag?: string
}

const startProcess = async (cloud: Cloud, box: CloudBox, request: Request): Promise<Response> => {
  const body = new Uint8Array(await request.arrayBuffer())
  const { process, tag } = JSON.parse(new TextDecoder().decode(body.subarray(5))) as StartRequest
  const output = await cloud.run(box, {
    argv: [process.cmd, ...(process.args ?? [])],
    cwd: process.cwd,
    tag,
    ...(process.envs && { environment: process.envs }),
  })
  const data = (name: string, bytes: Uint8Array) =>
    bytes.length === 0 ? [] : [envelope(0, { event: { data: { [name]: base64(bytes) } } })]
  const messages = [
    envelope(0, { event: { start: { pid: 7 } } }),
    envelope(0, { event: { keepalive: {} } }),
    ...data("stdout", output.stdout),
    ...data("stderr", output.stderr),
    envelope(0, {
      event: {
        end: {
          // A value of zero is left out, as protobuf's JSON does.
          ...(output.exitCode !== 0 && { exitCode: output.exitCode }),
          exited: true,
          status: `exit status ${output.exitCode}`,
        },
      },
    }),
    envelope(2, {}),
  ]
  return new Response(Buffer.concat(messages), {
    headers: { "content-type": "application/connect+json" },
  })
}

const envd = async (cloud: Cloud, request: Request): Promise<Response> => {
  const box = cloud.boxes.get(request.headers.get("e2b-sandbox-id") ?? "")
  if (!box || box.state !== "running")
    return Response.json({ message: "The sandbox was not found", code: 502 }, { status: 502 })
  const { pathname } = new URL(request.url)
  if (pathname === "/health") return new Response(null, { status: 204 })
  if (request.headers.get("x-access-token") !== envdToken(box))
    return Response.json({ code: "unauthenticated", message: "no access" }, { status: 401 })
  if (pathname === "/process.Process/Start") return startProcess(cloud, box, request)
  if (pathname !== "/process.Process/SendSignal")
    return Response.json({ code: "unimplemented" }, { status: 404 })
  const { process } = (await request.json()) as { readonly process: { readonly tag: string } }
  return cloud.kill(process.tag)
    ? Response.json({})
    : Response.json({ code: "not_found", message: "no such process" }, { status: 404 })
}

const readJson = async (request: Request): Promise<Body> => {
  const text = await request.text()
  return text === "" ? {} : (JSON.parse(text) as Body)
}

export const startE2bDouble = async (): Promise<E2bDouble> => {
  const cloud = createCloud({ idOf: (count) => `i${count}abc` })

  const create = (body: Body): Response => {
    for (const { name } of body.volumeMounts ?? [])
      if (!cloud.volumes.has(name)) return problem(400, `the volume ${name} does not exist`)
    const mounts = (body.volumeMounts ?? []).map(({ name, path }) => [path, name])
    const box = cloud.create({
      name: "",
      image: body.templateID ?? CLOUD_IMAGE,
      labels: body.metadata ?? {},
      environment: body.envVars ?? {},
      volumes: Object.fromEntries(mounts) as Record<string, string>,
      lifeMs: (body.timeout ?? DEFAULT_TIMEOUT) * 1000,
    })
    return box ? Response.json(identity(box), { status: 201 }) : notFound("the template")
  }

  const list = (query: URLSearchParams): Response => {
    const wanted = [...new URLSearchParams(query.get("metadata") ?? "")].map(
      ([name, value]) => [decodeURIComponent(name), decodeURIComponent(value)] as const,
    )
    const states = query.getAll("state").flatMap((text) => text.split(","))
    const found = [...cloud.boxes.values()].filter(
      (box) =>
        (states.length === 0 || states.includes(box.state)) &&
        wanted.every(([name, value]) => box.labels[name] === value),
    )
    const from = Number(query.get("nextToken") ?? 0)
    const next = from + PAGE
    return Response.json(found.slice(from, next).map(listed), {
      headers: found.length > next ? { "x-next-token": String(next) } : {},
    })
  }

  const connect = (box: CloudBox, body: Body): Response => {
    if (body.timeout === undefined) return problem(400, "timeout is required")
    const status = box.state === "running" ? 200 : 201
    box.state = "running"
    box.endAt = Date.now() + body.timeout * 1000
    return Response.json(identity(box), { status })
  }

  const ofSandbox = (box: CloudBox, verb: string, body: Body): Response => {
    switch (verb) {
      case "GET ":
        return Response.json({ ...listed(box), envdAccessToken: envdToken(box), domain: null })
      case "DELETE ":
        cloud.end(box.id)
        return new Response(null, { status: 204 })
      case "POST pause":
        if (box.state === "paused") return problem(409, "the sandbox is paused already")
        box.state = "paused"
        return new Response(null, { status: 204 })
      case "POST connect":
        return connect(box, body)
      case "POST timeout":
        if (box.state === "paused") return notFound("the running sandbox")
        box.endAt = Date.now() + (body.timeout ?? 0) * 1000
        return new Response(null, { status: 204 })
      case "POST snapshots": {
        // A named one is known by the team, its name and a tag.
        const id =
          body.name === undefined
            ? `snap${cloud.snapshots.size + 1}of${box.id}:default`
            : `${TEAM}/${body.name}:default`
        cloud.snapshot(box, id)
        return Response.json(snapshotOf(id), { status: 201 })
      }
      default:
        return notFound("the route")
    }
  }

  const snapshotOf = (id: string) => ({
    snapshotID: id,
    names: id.startsWith(`${TEAM}/`) ? [id] : [],
  })
  const listSnapshots = (query: URLSearchParams): Response => {
    const from = Number(query.get("nextToken") ?? 0)
    const to = from + Math.min(Number(query.get("limit") ?? PAGE), PAGE)
    const all = [...cloud.snapshots.keys()].map(snapshotOf)
    const headers = to < all.length ? { "x-next-token": String(to) } : undefined
    return Response.json(all.slice(from, to), { ...(headers && { headers }) })
  }

  const volumes = (method: string, id: string, body: Body): Response => {
    if (method === "GET")
      return Response.json([...cloud.volumes].map(([name, volumeID]) => ({ name, volumeID })))
    if (method === "POST") {
      const name = body.name ?? ""
      if (cloud.volumes.has(name)) return problem(409, `the volume ${name} exists already`)
      const volumeID = `vol-${name}`
      cloud.volumes.set(name, volumeID)
      return Response.json({ name, volumeID, token: "volume-token" }, { status: 201 })
    }
    for (const [name, volumeID] of cloud.volumes)
      if (volumeID === id) {
        cloud.volumes.delete(name)
        return new Response(null, { status: 204 })
      }
    return notFound("the volume")
  }

  const double = await startHttpDouble([E2B_KEY], async (request) => {
    const url = new URL(request.url)
    if (request.headers.has("e2b-sandbox-id")) return envd(cloud, request)
    if (request.headers.get("x-api-key") !== E2B_KEY) return problem(401, "the API key is wrong")
    const parts = url.pathname.replace(/^\/v2/, "").split("/").slice(1)
    const [kind = "", id = "", verb = ""] = parts
    const body = await readJson(request)
    if (kind === "volumes") return volumes(request.method, id, body)
    if (kind === "snapshots") return listSnapshots(url.searchParams)
    if (kind === "templates" && request.method === "DELETE")
      return cloud.removeSnapshot(decodeURIComponent(id))
        ? new Response(null, { status: 204 })
        : notFound("the template")
    if (kind !== "sandboxes") return notFound("the route")
    if (id === "") return request.method === "POST" ? create(body) : list(url.searchParams)
    const box = cloud.boxes.get(id)
    return box ? ofSandbox(box, `${request.method} ${verb}`, body) : notFound(`the sandbox ${id}`)
  })
  return {
    ...double,
    cloud,
    stop: async () => {
      await double.stop()
      cloud.remove()
    },
  }
}
