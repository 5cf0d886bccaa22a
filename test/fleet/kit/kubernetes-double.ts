/**
 * A double of the Kubernetes API with the objects that the provider uses: secrets, volume claims, pods, volume snapshots,
 * claims of agent-sandbox, and commands in pods. The files of a volume claim are a directory, and commands are real
 * processes in it.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createManualClock } from "../../kit/clock.ts"
import { type FaultyHttp, startFaultyHttp } from "./faulty-http.ts"
import {
  afterCreate,
  afterPatch,
  createObjectStore,
  groups,
  type Manifest,
  merged,
  type StoredObject,
} from "./kubernetes-objects.ts"

export const KUBERNETES_TOKEN = "token-of-the-service-account-0123456789"
const NAMESPACE = "sandboxes"
/** Small, so that lists have several pages. */
const PAGE = 2

export interface KubernetesDouble {
  readonly url: string
  readonly namespace: string
  readonly tokenFile: string
  readonly server: FaultyHttp
  readonly clock: ReturnType<typeof createManualClock>
  /** By kind and name, such as `pods/sp-a-1`. */
  readonly objects: ReadonlyMap<string, StoredObject>
  /** Method and path of every request, without its query. */
  readonly asked: readonly string[]
  readonly stop: () => Promise<void>
}

const failure = (code: number, reason: string, message: string): Response =>
  Response.json(
    { kind: "Status", apiVersion: "v1", status: "Failure", message, reason, code },
    { status: code },
  )

export const startKubernetesDouble = async (): Promise<KubernetesDouble> => {
  const root = mkdtempSync(join(tmpdir(), "kubernetes-double-"))
  const tokenFile = join(root, "token")
  writeFileSync(tokenFile, `${KUBERNETES_TOKEN}\n`)
  const store = createObjectStore(root)
  const { objects } = store
  const asked: string[] = []

  const render = (object: StoredObject) => ({
    ...object.manifest,
    metadata: {
      ...object.manifest.metadata,
      namespace: NAMESPACE,
      uid: object.uid,
      creationTimestamp: object.createdAt,
      ...(object.isDeleting && { deletionTimestamp: object.createdAt }),
    },
    status: { ...object.status, phase: object.phase, podIP: "10.1.2.3" },
  })

  const create = (kind: string, manifest: Manifest): Response => {
    const { name } = manifest.metadata
    const key = `${kind}/${name}`
    if (objects.has(key)) return failure(409, "AlreadyExists", `${kind} "${name}" already exists`)
    if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name))
      return failure(422, "Invalid", `the name ${name} is invalid`)
    for (const value of Object.values(manifest.metadata.labels ?? {}))
      if (!/^[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/.test(value))
        return failure(422, "Invalid", `the label ${value} is invalid`)
    const object = store.put(kind, manifest)
    afterCreate(store, kind, object)
    return Response.json(render(object), { status: 201 })
  }

  const list = (kind: string, query: URLSearchParams): Response => {
    const wanted = (query.get("labelSelector") ?? "").split(",").filter(Boolean)
    const found = [...objects]
      .filter(([key]) => key.startsWith(`${kind}/`))
      .filter(([, { manifest }]) =>
        wanted.every((pair) => {
          const [name = "", value] = pair.split("=")
          return manifest.metadata.labels?.[name] === value
        }),
      )
    const from = Number(query.get("continue") ?? 0)
    const next = from + PAGE
    return Response.json({
      kind: "List",
      apiVersion: "v1",
      metadata: next < found.length ? { continue: String(next) } : {},
      items: found.slice(from, next).map(([, object]) => render(object)),
    })
  }

  const isAllowed = (authorization: string | null | undefined) =>
    authorization === `Bearer ${KUBERNETES_TOKEN}`

  const handle = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url)
    if (!isAllowed(request.headers.get("authorization")))
      return failure(401, "Unauthorized", "Unauthorized")
    asked.push(`${request.method} ${pathname}`)
    const [, group = "", namespace, kind = "", name] =
      /^\/(api\/v1|apis\/[^/]+\/[^/]+)\/namespaces\/([^/]+)\/([a-z]+)(?:\/([^/]+))?$/.exec(
        pathname,
      ) ?? []
    if (namespace === undefined || groups[group]?.includes(kind) !== true)
      return new Response("404 page not found", { status: 404 })
    if (namespace !== NAMESPACE)
      return failure(404, "NotFound", `namespaces "${namespace}" not found`)
    if (name === undefined)
      return request.method === "POST"
        ? create(kind, (await request.json()) as Manifest)
        : list(kind, searchParams)
    const key = `${kind}/${name}`
    const object = objects.get(key)
    if (!object) return failure(404, "NotFound", `${kind} "${name}" not found`)
    if (request.method === "DELETE") store.remove(key)
    if (request.method === "PATCH") {
      if (request.headers.get("content-type") !== "application/merge-patch+json")
        return failure(415, "UnsupportedMediaType", "the double knows merge patches only")
      object.manifest = merged(object.manifest, await request.json()) as Manifest
      afterPatch(store, kind, object)
    }
    return Response.json(render(object))
  }

  /** Where each mount of a pod lies on this machine. */
  const mountsOf = (pod: StoredObject): readonly (readonly [string, string])[] =>
    (pod.manifest.spec?.containers?.[0]?.volumeMounts ?? []).flatMap((mount) => {
      const volume = pod.manifest.spec?.volumes?.find(({ name }) => name === mount.name)
      if (volume?.emptyDir) {
        const own = join(pod.folder, mount.name)
        mkdirSync(own, { recursive: true })
        return [[mount.mountPath, own] as const]
      }
      const source =
        volume?.secret === undefined
          ? objects.get(`persistentvolumeclaims/${volume?.persistentVolumeClaim?.claimName}`)
          : objects.get(`secrets/${volume.secret.secretName}`)
      if (!source) return []
      const folder = join(source.folder, mount.subPath ?? "")
      mkdirSync(folder, { recursive: true })
      return [[mount.mountPath, folder] as const]
    })

  const connect = async (
    url: URL,
    headers: { readonly authorization?: string | undefined },
  ): Promise<
    readonly Uint8Array[] | Response | ((message: Uint8Array) => Promise<readonly Uint8Array[]>)
  > => {
    asked.push(`GET ${url.pathname}`)
    if (!isAllowed(headers.authorization)) return failure(401, "Unauthorized", "Unauthorized")
    const name = /^\/api\/v1\/namespaces\/sandboxes\/pods\/([^/]+)\/exec$/.exec(url.pathname)?.[1]
    const pod = objects.get(`pods/${name}`)
    if (!pod) return failure(404, "NotFound", `pods "${name}" not found`)
    return url.searchParams.get("stdin") === "true"
      ? (message) => runIn(pod, url, message.subarray(1))
      : runIn(pod, url)
  }

  const runIn = async (
    pod: StoredObject,
    url: URL,
    input?: Uint8Array,
  ): Promise<readonly Uint8Array[]> => {
    const mounts = mountsOf(pod)
    const inside = (text: string) =>
      mounts.reduce((all, [path, folder]) => all.replaceAll(path, folder), text)
    const child = Bun.spawn(url.searchParams.getAll("command").map(inside), {
      cwd: mounts.find(([path]) => path === "/workspace")?.[1] ?? root,
      env: { PATH: process.env["PATH"] ?? "" },
      stdin: input ?? "ignore",
      stdout: "pipe",
      stderr: "pipe",
      detached: true,
    })
    const [exitCode, stdout, stderr] = await Promise.all([
      child.exited,
      new Response(child.stdout).bytes(),
      new Response(child.stderr).bytes(),
    ])
    const end =
      exitCode === 0
        ? { metadata: {}, status: "Success" }
        : {
            metadata: {},
            status: "Failure",
            message: `command terminated with exit code ${exitCode}`,
            reason: "NonZeroExitCode",
            details: { causes: [{ reason: "ExitCode", message: String(exitCode) }] },
          }
    const message = (stream: number, bytes: Uint8Array) =>
      Buffer.concat([Uint8Array.of(stream), bytes])
    return [message(1, stdout), message(2, stderr), message(3, Buffer.from(JSON.stringify(end)))]
  }

  const clock = createManualClock(Date.now())
  const server = await startFaultyHttp({
    handle,
    connect,
    secrets: [KUBERNETES_TOKEN],
    expire: () => clock.advance(3_600_000),
  })
  return {
    url: server.url,
    namespace: NAMESPACE,
    tokenFile,
    server,
    clock,
    objects,
    asked,
    stop: async () => {
      await server.stop()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
