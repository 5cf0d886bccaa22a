/**
 * A double of the Docker Engine API with the answers that Docker and Podman give. A container is a directory, and its
 * commands are real processes in it; the paths of its mounts are replaced in the command's text.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createManualClock } from "../../kit/clock.ts"
import { type FaultyHttp, startFaultyHttp } from "./faulty-http.ts"

export const DOCKER_IMAGE = "sandpiper:test"
const BASE = "base"

/** The two engines refuse the same things with different statuses and words. */
export type Engine = "docker" | "podman"

interface CreateBody {
  readonly Image: string
  readonly Entrypoint: readonly string[]
  readonly Env?: readonly string[]
  readonly Labels: Readonly<Record<string, string>>
  readonly HostConfig: {
    readonly Mounts: readonly { readonly Source?: string; readonly Target: string }[]
    readonly PortBindings: Readonly<Record<string, unknown>>
  }
}

interface Container {
  readonly id: string
  readonly name: string
  readonly body: CreateBody
  readonly folder: string
  /** The directory of each mount on this machine. */
  readonly mounts: Readonly<Record<string, string>>
  readonly imageId: string
  readonly createdAt: number
  readonly port: number
  status: "created" | "running" | "paused" | "exited"
}

export interface DockerDouble {
  readonly socket: string
  readonly server: FaultyHttp
  readonly clock: ReturnType<typeof createManualClock>
  readonly containers: ReadonlyMap<string, Container>
  /** Image references and the image of each. */
  readonly tags: ReadonlyMap<string, string>
  /** Every body that created a container, as text. */
  readonly creates: readonly string[]
  readonly stop: () => Promise<void>
}

const empty = (status: number) => new Response(null, { status })

/** A file of one block-aligned archive. */
const unpack = (bytes: Uint8Array, folder: string): void => {
  const text = (from: number, length: number) =>
    new TextDecoder().decode(bytes.subarray(from, from + length)).replace(/\0.*$/s, "")
  const size = Number.parseInt(text(124, 12), 8)
  writeFileSync(join(folder, text(0, 100)), bytes.subarray(512, 512 + size), {
    mode: Number.parseInt(text(100, 8), 8),
  })
}

const frame = (stream: number, bytes: Uint8Array): Uint8Array => {
  const head = Buffer.alloc(8)
  head.writeUInt8(stream, 0)
  head.writeUInt32BE(bytes.length, 4)
  return Buffer.concat([head, bytes])
}

export const startDockerDouble = async (engine: Engine): Promise<DockerDouble> => {
  const root = mkdtempSync(join(tmpdir(), "docker-double-"))
  const socket = join(root, "docker.sock")
  const containers = new Map<string, Container>()
  const images = new Map([[BASE, join(root, "image-base")]])
  const tags = new Map([[DOCKER_IMAGE, BASE]])
  const labelsOf = new Map<string, Readonly<Record<string, string>>>()
  const madeAt = Math.floor(Date.now() / 1000)
  const volumes = new Map<string, string>()
  const execs = new Map<string, { readonly container: Container; readonly body: ExecBody }>()
  const exits = new Map<string, number>()
  const creates: string[] = []
  const count = { made: 0 }
  const next = () => (count.made += 1)
  mkdirSync(join(root, "image-base"))

  interface ExecBody {
    readonly Cmd: readonly string[]
    readonly Env?: readonly string[]
    readonly WorkingDir?: string
  }

  const problem = (status: number, message: string, cause = message): Response =>
    engine === "docker"
      ? Response.json({ message }, { status })
      : Response.json({ cause, message, response: status }, { status })
  const noContainer = (name: string) =>
    engine === "docker"
      ? problem(404, `No such container: ${name}`)
      : problem(404, `no container with name or ID "${name}" found: no such container`)
  /** Docker calls it a conflict, Podman an internal error. */
  const conflict = (message: string) => problem(engine === "docker" ? 409 : 500, message)

  const folderOfVolume = (name: string): string => {
    const folder = volumes.get(name) ?? join(root, `volume-${next()}`)
    if (!volumes.has(name)) mkdirSync(folder)
    volumes.set(name, folder)
    return folder
  }

  const create = (name: string, text: string): Response => {
    creates.push(text)
    const body = JSON.parse(text) as CreateBody
    if (containers.has(name))
      return conflict(
        engine === "docker"
          ? `Conflict. The container name "/${name}" is already in use`
          : `creating container storage: the container name "${name}" is already in use`,
      )
    const imageId = tags.get(body.Image)
    if (imageId === undefined) return problem(404, `No such image: ${body.Image}`)
    const folder = join(root, `container-${next()}`)
    cpSync(images.get(imageId) ?? "", folder, { recursive: true })
    const mounts = body.HostConfig.Mounts.map(({ Source, Target }) => [
      Target,
      folderOfVolume(Source ?? `anonymous-${name}`),
    ])
    const container: Container = {
      id: `${next()}`.padStart(64, "0"),
      name,
      body,
      folder,
      mounts: Object.fromEntries(mounts) as Record<string, string>,
      imageId,
      createdAt: Date.now(),
      port: 40_000 + count.made,
      status: "created",
    }
    containers.set(name, container)
    return Response.json({ Id: container.id, Warnings: [] }, { status: 201 })
  }

  const start = (container: Container): Response => {
    if (container.status === "running") return empty(304)
    // Its first command reads the file; without it the container ends at once.
    const file = join(container.mounts["/run/sandpiper"] ?? root, "environment")
    container.status = existsSync(file) ? "running" : "exited"
    return empty(204)
  }

  const describe = (container: Container) => ({
    Id: container.id,
    Created: new Date(container.createdAt).toISOString(),
    Name: `/${container.name}`,
    State: { Status: container.status, Running: container.status === "running" },
    Config: { ...container.body, HostConfig: undefined },
    HostConfig: container.body.HostConfig,
    NetworkSettings: {
      Ports: Object.fromEntries(
        Object.keys(container.body.HostConfig.PortBindings).map((port) => [
          port,
          [{ HostIp: "127.0.0.1", HostPort: String(container.port) }],
        ]),
      ),
    },
  })

  const list = (query: URLSearchParams): Response => {
    const filters = JSON.parse(query.get("filters") ?? "{}") as {
      readonly label?: readonly string[]
      readonly ancestor?: readonly string[]
    }
    const found = [...containers.values()].filter(
      ({ body, imageId }) =>
        (filters.label ?? []).every((wanted) =>
          Object.entries(body.Labels).some(([name, value]) => `${name}=${value}` === wanted),
        ) && (filters.ancestor ?? []).every((image) => tags.get(image) === imageId),
    )
    return Response.json(
      found.map(({ id, name, body, status, createdAt }) => ({
        Id: id,
        Names: [`/${name}`],
        Labels: body.Labels,
        State: status,
        Created: Math.floor(createdAt / 1000),
      })),
    )
  }

  const listImages = (query: URLSearchParams): Response => {
    const { label = [] } = JSON.parse(query.get("filters") ?? "{}") as {
      readonly label?: readonly string[]
    }
    const isWanted = (labels: Readonly<Record<string, string>>) =>
      label.every((wanted) =>
        Object.entries(labels).some(([name, value]) => `${name}=${value}` === wanted),
      )
    const found = [...images.keys()].filter((id) => isWanted(labelsOf.get(id) ?? {}))
    return Response.json(
      found.map((id) => {
        const own = [...tags].flatMap(([tag, image]) => (image === id ? [tag] : []))
        return { Id: id, RepoTags: own, Created: madeAt, Labels: labelsOf.get(id) ?? null }
      }),
    )
  }

  const run = async (id: string): Promise<Response> => {
    const exec = execs.get(id)
    if (!exec) return problem(404, `No such exec instance: ${id}`)
    const { container, body } = exec
    const inside = (text: string) =>
      Object.entries(container.mounts).reduce((all, [path, at]) => all.replaceAll(path, at), text)
    const child = Bun.spawn(body.Cmd.map(inside), {
      cwd: body.WorkingDir ?? container.folder,
      env: {
        PATH: process.env["PATH"] ?? "",
        ...Object.fromEntries((body.Env ?? []).map((entry) => entry.split(/=(.*)/s).slice(0, 2))),
      } as Record<string, string>,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      // A command of an engine leads a process group.
      detached: true,
    })
    const [exitCode, stdout, stderr] = await Promise.all([
      child.exited,
      new Response(child.stdout).bytes(),
      new Response(child.stderr).bytes(),
    ])
    exits.set(id, exitCode)
    const output = [stdout, stderr].flatMap((bytes, index) =>
      bytes.length === 0 ? [] : [frame(index + 1, bytes)],
    )
    return new Response(Uint8Array.from(Buffer.concat(output)))
  }

  const removeImage = (ref: string): Response => {
    const id = tags.get(ref)
    if (id === undefined) return problem(404, `No such image: ${ref}`)
    const isLast = [...tags.values()].filter((one) => one === id).length === 1
    if (isLast && [...containers.values()].some(({ imageId }) => imageId === id))
      return problem(
        409,
        engine === "docker"
          ? `conflict: unable to remove repository reference "${ref}" (must force)`
          : `image used by a container: image is in use by a container`,
      )
    tags.delete(ref)
    return Response.json([{ Untagged: ref }])
  }

  const ofContainer = async (
    call: string,
    container: Container,
    request: Request,
  ): Promise<Response> => {
    switch (`${request.method} ${call}`) {
      case "GET json":
        return Response.json(describe(container))
      case "PUT archive": {
        const target = new URL(request.url).searchParams.get("path") ?? ""
        const folder = container.mounts[target]
        if (folder === undefined) return problem(404, `Could not find the file ${target}`)
        unpack(new Uint8Array(await request.arrayBuffer()), folder)
        return empty(200)
      }
      case "POST start":
        return start(container)
      case "POST restart":
        container.status = "exited"
        return start(container)
      case "POST pause":
        if (container.status !== "running") return conflict(`it is ${container.status}`)
        container.status = "paused"
        return empty(204)
      case "POST unpause":
        if (container.status !== "paused") return conflict("it is not paused")
        container.status = "running"
        return empty(204)
      case "POST exec": {
        if (container.status !== "running") return conflict(`it is ${container.status}`)
        const id = `${next()}`.padStart(64, "e")
        execs.set(id, { container, body: (await request.json()) as ExecBody })
        return Response.json({ Id: id }, { status: 201 })
      }
      case "DELETE ":
        containers.delete(container.name)
        volumes.delete(`anonymous-${container.name}`)
        return empty(204)
      default:
        return problem(404, "page not found")
    }
  }

  const handle = async (request: Request): Promise<Response> => {
    const { pathname, searchParams: query } = new URL(request.url)
    const path = pathname.replace(/^\/v1\.41/, "")
    if (path === "/_ping") return new Response("OK")
    if (path === "/containers/create") return create(query.get("name") ?? "", await request.text())
    if (path === "/containers/json") return list(query)
    if (path === "/images/json") return listImages(query)
    if (path === "/commit") {
      const container = containers.get(query.get("container") ?? "")
      if (!container) return noContainer(query.get("container") ?? "")
      const id = `image-${next()}`
      images.set(id, join(root, id))
      cpSync(container.folder, join(root, id), { recursive: true })
      tags.set(`${query.get("repo")}:${query.get("tag")}`, id)
      labelsOf.set(id, container.body.Labels)
      return Response.json({ Id: id }, { status: 201 })
    }
    const exec = /^\/exec\/([^/]+)\/(start|json)$/.exec(path)
    if (exec?.[2] === "start") return run(exec[1] ?? "")
    if (exec) {
      const exitCode = exits.get(exec[1] ?? "")
      return Response.json({ Running: exitCode === undefined, ExitCode: exitCode ?? null })
    }
    const image = /^\/images\/(.+?)(\/tag|\/json)?$/.exec(path)
    if (image) {
      const ref = decodeURIComponent(image[1] ?? "")
      if (image[2] === undefined) return removeImage(ref)
      const id = tags.get(ref)
      if (id === undefined) return problem(404, `No such image: ${ref}`)
      if (image[2] === "/json") return Response.json({ Id: id })
      tags.set(`${query.get("repo")}:${query.get("tag")}`, id)
      return empty(201)
    }
    const volume = /^\/volumes\/(.+)$/.exec(path)
    if (volume)
      return volumes.delete(decodeURIComponent(volume[1] ?? ""))
        ? empty(204)
        : problem(404, "no such volume")
    const [, name = "", call = ""] = /^\/containers\/([^/]+)\/?(\w*)$/.exec(path) ?? []
    const wanted = decodeURIComponent(name)
    // An engine also finds a container by its id or the start of it.
    const container =
      containers.get(wanted) ??
      [...containers.values()].find(({ id }) => wanted !== "" && id.startsWith(wanted))
    return container ? ofContainer(call, container, request) : noContainer(wanted)
  }

  const clock = createManualClock(Date.now())
  const server = await startFaultyHttp({
    handle,
    unix: socket,
    secrets: [],
    expire: () => clock.advance(3_600_000),
  })
  return {
    socket,
    server,
    clock,
    containers,
    tags,
    creates,
    stop: async () => {
      await server.stop()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
