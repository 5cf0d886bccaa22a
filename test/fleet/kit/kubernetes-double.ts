/**
 * A double of the Kubernetes API with the objects that the provider uses: secrets, volume claims, pods and commands in
 * pods. The files of a volume claim are a directory, and commands are real processes in it.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createManualClock } from "../../kit/clock.ts"
import { type FaultyHttp, startFaultyHttp } from "./faulty-http.ts"

export const KUBERNETES_TOKEN = "token-of-the-service-account-0123456789"
const NAMESPACE = "sandboxes"
/** Small, so that lists have several pages. */
const PAGE = 2

interface Manifest {
  readonly metadata: {
    readonly name: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
    readonly ownerReferences?: readonly { readonly uid: string }[]
  }
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: {
    readonly volumes?: readonly {
      readonly name: string
      readonly secret?: { readonly secretName: string }
      readonly persistentVolumeClaim?: { readonly claimName: string }
    }[]
    readonly containers?: readonly {
      readonly volumeMounts: readonly {
        readonly name: string
        readonly mountPath: string
        readonly subPath?: string
      }[]
    }[]
  }
}

export interface StoredObject {
  readonly uid: string
  readonly createdAt: string
  readonly manifest: Manifest
  readonly folder: string
  phase: string
  isDeleting: boolean
}

export interface KubernetesDouble {
  readonly url: string
  readonly namespace: string
  readonly tokenFile: string
  readonly server: FaultyHttp
  readonly clock: ReturnType<typeof createManualClock>
  /** By kind and name, such as `pods/sp-a-1`. */
  readonly objects: ReadonlyMap<string, StoredObject>
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
  const objects = new Map<string, StoredObject>()
  const count = { made: 0 }

  const render = (object: StoredObject) => ({
    ...object.manifest,
    metadata: {
      ...object.manifest.metadata,
      namespace: NAMESPACE,
      uid: object.uid,
      creationTimestamp: object.createdAt,
      ...(object.isDeleting && { deletionTimestamp: object.createdAt }),
    },
    status: { phase: object.phase, podIP: "10.1.2.3" },
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
    count.made += 1
    const folder = join(root, `object-${count.made}`)
    mkdirSync(folder)
    if (kind === "secrets")
      for (const [file, data] of Object.entries(manifest.data ?? {}))
        writeFileSync(join(folder, file), Buffer.from(data, "base64"))
    const object: StoredObject = {
      uid: `uid-${count.made}`,
      createdAt: new Date().toISOString(),
      manifest,
      folder,
      phase: kind === "pods" ? "Running" : "Active",
      isDeleting: false,
    }
    objects.set(key, object)
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
      metadata: next < found.length ? { continue: String(next) } : {},
      items: found.slice(from, next).map(([, object]) => render(object)),
    })
  }

  /** The owned objects go with their owner. */
  const remove = (key: string): void => {
    const uid = objects.get(key)?.uid
    objects.delete(key)
    for (const [other, { manifest }] of objects)
      if (manifest.metadata.ownerReferences?.some((owner) => owner.uid === uid)) remove(other)
  }

  const isAllowed = (authorization: string | null | undefined) =>
    authorization === `Bearer ${KUBERNETES_TOKEN}`

  const handle = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url)
    if (!isAllowed(request.headers.get("authorization")))
      return failure(401, "Unauthorized", "Unauthorized")
    const [, namespace, kind = "", name] =
      /^\/api\/v1\/namespaces\/([^/]+)\/(secrets|pods|persistentvolumeclaims)(?:\/([^/]+))?$/.exec(
        pathname,
      ) ?? []
    if (namespace === undefined) return new Response("404 page not found", { status: 404 })
    if (namespace !== NAMESPACE)
      return failure(404, "NotFound", `namespaces "${namespace}" not found`)
    if (name === undefined)
      return request.method === "POST"
        ? create(kind, (await request.json()) as Manifest)
        : list(kind, searchParams)
    const key = `${kind}/${name}`
    const object = objects.get(key)
    if (!object) return failure(404, "NotFound", `${kind} "${name}" not found`)
    if (request.method === "DELETE") remove(key)
    return Response.json(render(object))
  }

  /** Where each mount of a pod lies on this machine. */
  const mountsOf = ({ manifest }: StoredObject): readonly (readonly [string, string])[] =>
    (manifest.spec?.containers?.[0]?.volumeMounts ?? []).flatMap((mount) => {
      const volume = manifest.spec?.volumes?.find(({ name }) => name === mount.name)
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
  ): Promise<readonly Uint8Array[] | Response> => {
    if (!isAllowed(headers.authorization)) return failure(401, "Unauthorized", "Unauthorized")
    const name = /^\/api\/v1\/namespaces\/sandboxes\/pods\/([^/]+)\/exec$/.exec(url.pathname)?.[1]
    const pod = objects.get(`pods/${name}`)
    if (!pod) return failure(404, "NotFound", `pods "${name}" not found`)
    const mounts = mountsOf(pod)
    const inside = (text: string) =>
      mounts.reduce((all, [path, folder]) => all.replaceAll(path, folder), text)
    const child = Bun.spawn(url.searchParams.getAll("command").map(inside), {
      cwd: mounts.find(([path]) => path === "/workspace")?.[1] ?? root,
      env: { PATH: process.env["PATH"] ?? "" },
      stdin: "ignore",
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
    stop: async () => {
      await server.stop()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
