/**
 * A double of Modal's gRPC services: control plane and command router on one port. It is made with the definitions of the
 * installed SDK, so both ends use the same codecs. Faults are those of the control plane.
 */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { startTcpProxy } from "../../kit/tcp-proxy.ts"
import { type Cloud, type CloudBox, createCloud } from "./cloud.ts"
import { createFaultClock, type FaultClock } from "./fault-clock.ts"
import { createFaults, type Faults } from "./faults.ts"

export const MODAL_TOKEN_ID = `ak-${"4Tz".repeat(8)}`
export const MODAL_TOKEN_SECRET = `as-${"9Qx".repeat(8)}`

export interface ModalDouble {
  /** For MODAL_SERVER_URL. */
  readonly url: string
  readonly cloud: Cloud
  readonly clock: FaultClock
  readonly faults: Faults
  /** Every call in order. */
  readonly calls: { readonly name: string; readonly request: unknown }[]
  /** The next calls of this method fail with this status. */
  readonly fail: (method: string, code: number, times?: number) => void
  /** The next call of this method is carried out when `gate` resolves. */
  readonly hold: (method: string, gate: Promise<void>) => void
  /** Ends the main process of a sandbox, as its own exit would. */
  readonly finish: (id: string) => void
  readonly stop: () => Promise<void>
}

const status = {
  unknown: 2,
  invalidArgument: 3,
  notFound: 5,
  alreadyExists: 6,
  resourceExhausted: 8,
  failedPrecondition: 9,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const

interface Tag {
  readonly tagName: string
  readonly tagValue: string
}
interface Definition {
  readonly imageId: string
  readonly name?: string
  readonly timeoutSecs: number
  readonly volumeMounts: readonly {
    readonly volumeId: string
    readonly mountPath: string
    readonly readOnly: boolean
  }[]
  readonly openPorts?: { readonly ports: readonly { readonly port: number }[] }
  readonly enableSnapshot: boolean
}
interface CreateRequest {
  readonly definition: Definition
  readonly tags: readonly Tag[]
  readonly secretSources: readonly {
    readonly env?: { readonly contents?: Readonly<Record<string, string>> }
  }[]
}
interface ByBox {
  readonly sandboxId: string
}
interface ByTask {
  readonly taskId: string
}
interface ExecRequest extends ByTask {
  readonly execId: string
  readonly commandArgs: readonly string[]
  readonly workdir?: string
  readonly secretSources: CreateRequest["secretSources"]
}

type Call = (request: never, context: Context) => unknown
interface Context {
  readonly metadata: { readonly get: (name: string) => string | undefined }
}
interface Grpc {
  readonly createServer: () => {
    readonly add: (definition: unknown, implementation: unknown) => void
    readonly listen: (address: string) => Promise<number>
    readonly forceShutdown: () => void
  }
  readonly ServerError: new (code: number, details: string) => Error
}
type Methods = Readonly<Record<string, { readonly responseStream: boolean }>>
interface Definitions {
  readonly ModalClientDefinition: { readonly methods: Methods }
  readonly TaskCommandRouterDefinition: { readonly methods: Methods }
}

const modalFile = resolve("node_modules/modal/dist/index.js")

/** The SDK does not export its definitions: a copy of its file does. */
const loadDefinitions = async (): Promise<Definitions> => {
  const folder = mkdtempSync(join(tmpdir(), "modal-definitions-"))
  const text = readFileSync(modalFile, "utf8").replace(
    "\nexport {\n",
    "\nexport {\n  ModalClientDefinition,\n  TaskCommandRouterDefinition,\n",
  )
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"))
  writeFileSync(join(folder, "index.mjs"), text)
  const loaded: unknown = await import(join(folder, "index.mjs"))
  rmSync(folder, { recursive: true })
  return loaded as Definitions
}

const loadGrpc = async (): Promise<Grpc> => {
  const loaded: unknown = await import(Bun.resolveSync("nice-grpc", dirname(modalFile)))
  return loaded as Grpc
}

const tagsOf = (tags: readonly Tag[]): Readonly<Record<string, string>> =>
  Object.fromEntries(tags.map(({ tagName, tagValue }) => [tagName, tagValue]))
const asTags = (labels: Readonly<Record<string, string>>): readonly Tag[] =>
  Object.entries(labels).map(([tagName, tagValue]) => ({ tagName, tagValue }))

/** As the SDK wants it: three parts, of which the second says when it expires. */
const token = () => {
  const claims = JSON.stringify({ exp: Math.floor(Date.now() / 1000) + 3600 })
  return `e30.${Buffer.from(claims).toString("base64url")}.x`
}

export const startModalDouble = async (): Promise<ModalDouble> => {
  const [{ ModalClientDefinition, TaskCommandRouterDefinition }, grpc] = await Promise.all([
    loadDefinitions(),
    loadGrpc(),
  ])
  const clock = createFaultClock()
  const faults = createFaults({
    clock,
    secrets: [MODAL_TOKEN_SECRET],
    hasRetryAfter: false,
  })
  // An id of the second version of Modal's sandboxes.
  const cloud = createCloud({ idOf: (count) => `sb-01K${String(count).padStart(23, "0")}` })
  const calls: { readonly name: string; readonly request: unknown }[] = []
  const failures: { readonly method: string; readonly code: number }[] = []
  const gates = new Map<string, Promise<void>>()
  const ports = new Map<string, readonly number[]>()
  const canSnapshotMemory = new Set<string>()
  const outputs = new Map<string, Promise<Awaited<ReturnType<Cloud["run"]>>>>()
  const counter = { snapshots: 0, port: 0 }

  const refuse = (code: number, details: string): never => {
    throw new grpc.ServerError(code, details)
  }
  const boxOf = ({ sandboxId }: ByBox): CloudBox =>
    cloud.boxes.get(sandboxId) ?? refuse(status.notFound, `Sandbox ${sandboxId} not found`)
  const runningBox = (request: ByBox): CloudBox => {
    const box = boxOf(request)
    return box.state === "running"
      ? box
      : refuse(status.notFound, `Sandbox ${box.id} has already finished`)
  }
  const taskOf = (box: CloudBox) => `ta-${box.id}`
  const boxOfTask = ({ taskId }: ByTask) => runningBox({ sandboxId: taskId.replace(/^ta-/, "") })
  const access = () => ({ jwt: token(), url: `https://127.0.0.1:${counter.port}` })
  const environmentOf = (sources: CreateRequest["secretSources"]) =>
    Object.assign({}, ...sources.map(({ env }) => env?.contents ?? {})) as Record<string, string>
  const tunnelsOf = (box: CloudBox) =>
    (ports.get(box.id) ?? []).map((port) => ({
      host: `${box.id.toLowerCase()}-${port}.modal.test`,
      port: 443,
      containerPort: port,
    }))
  const nameIsTaken = (name: string) =>
    [...cloud.boxes.values()].some((box) => box.name === name && box.state === "running")
  const newSnapshot = (box: CloudBox, prefix: string): string => {
    const id = `${prefix}-${++counter.snapshots}`
    cloud.snapshot(box, id)
    return id
  }

  const control: Readonly<Record<string, Call>> = {
    authTokenGet: () => ({ token: token() }),
    appGetOrCreate: () => ({ appId: "ap-1" }),
    environmentGetOrCreate: () => ({
      environmentId: "en-1",
      metadata: { name: "main", settings: { imageBuilderVersion: "2025.06", webhookSuffix: "" } },
    }),
    imageFromId: ({ imageId }: { readonly imageId: string }) =>
      cloud.snapshots.has(imageId)
        ? { imageId }
        : refuse(status.notFound, `Image ${imageId} not found`),
    imageGetOrCreate: ({
      image,
    }: {
      readonly image: { readonly dockerfileCommands: string[] }
    }) => ({
      imageId: image.dockerfileCommands[0]?.replace(/^FROM /, "") ?? "",
      result: { status: 1 },
    }),
    imageDelete: ({ imageId }: { readonly imageId: string }) =>
      cloud.removeSnapshot(imageId) ? {} : refuse(status.notFound, `Image ${imageId} not found`),
    volumeGetOrCreate: (request: {
      readonly deploymentName: string
      readonly objectCreationType: number
    }) => {
      const name = request.deploymentName
      if (request.objectCreationType === 0 && !cloud.volumes.has(name))
        refuse(status.notFound, `Volume ${name} not found`)
      cloud.volumes.set(name, `vo-${name}`)
      return { volumeId: `vo-${name}` }
    },
    volumeDelete: ({ volumeId }: { readonly volumeId: string }) => {
      cloud.volumes.delete(volumeId.replace(/^vo-/, ""))
      return {}
    },
    sandboxCreateV2: ({ definition, tags, secretSources }: CreateRequest) => {
      const name = definition.name ?? ""
      if (name !== "" && nameIsTaken(name)) refuse(status.alreadyExists, `Name ${name} is taken`)
      const box =
        cloud.create({
          name,
          image: definition.imageId,
          labels: tagsOf(tags),
          environment: environmentOf(secretSources),
          volumes: Object.fromEntries(
            definition.volumeMounts.map(({ volumeId, mountPath }) => [
              mountPath,
              volumeId.replace(/^vo-/, ""),
            ]),
          ),
          lifeMs: definition.timeoutSecs * 1000,
        }) ?? refuse(status.failedPrecondition, "The image does not exist")
      ports.set(
        box.id,
        (definition.openPorts?.ports ?? []).map(({ port }) => port),
      )
      if (definition.enableSnapshot) canSnapshotMemory.add(box.id)
      return { sandboxId: box.id, taskId: taskOf(box), tunnels: [], commandRouterAccess: access() }
    },
    sandboxListV2: (request: {
      readonly tags: readonly Tag[]
      readonly beforeTimestamp?: number
    }) => {
      const wanted = Object.entries(tagsOf(request.tags))
      const before = request.beforeTimestamp || Infinity
      const found = [...cloud.boxes.values()]
        .toReversed()
        .map((box, index) => ({ box, createdAt: 1_000_000 - index }))
        .filter(
          ({ box, createdAt }) =>
            box.state === "running" &&
            createdAt < before &&
            wanted.every(([name, value]) => box.labels[name] === value),
        )
      return {
        sandboxes: found.slice(0, 2).map(({ box, createdAt }) => ({
          id: box.id,
          createdAt,
          name: box.name,
          tags: asTags(box.labels),
        })),
      }
    },
    sandboxWaitV2: (request: ByBox) => {
      const box = boxOf(request)
      return box.state === "running" ? {} : { result: { status: 3, exitcode: 0 } }
    },
    sandboxTagsGetV2: (request: ByBox) => ({ tags: asTags(boxOf(request).labels) }),
    sandboxTagsSetV2: (request: ByBox & { readonly tags: readonly Tag[] }) => {
      const box = boxOf(request)
      cloud.boxes.set(box.id, { ...box, labels: tagsOf(request.tags) })
      return {}
    },
    sandboxGetTaskIdV2: (request: ByBox) => {
      const box = boxOf(request)
      return box.state === "running"
        ? { taskId: taskOf(box) }
        : { taskResult: { status: 3, exception: "" } }
    },
    sandboxGetCommandRouterAccess: (request: ByBox) => {
      runningBox(request)
      return access()
    },
    sandboxGetTunnelsV2: (request: ByBox) => ({
      result: { status: 1 },
      tunnels: tunnelsOf(runningBox(request)),
    }),
    sandboxTerminateV2: (request: ByBox) => {
      boxOf(request).state = "stopped"
      return {}
    },
    sandboxSnapshotGet: ({ snapshotId }: { readonly snapshotId: string }) =>
      cloud.snapshots.has(snapshotId)
        ? { snapshotId, handleMetadata: { isV2: true } }
        : refuse(status.notFound, `Snapshot ${snapshotId} not found`),
    sandboxRestoreV2: (request: {
      readonly snapshotId: string
      readonly sandboxNameOverride: string
    }) => {
      const name = request.sandboxNameOverride
      if (nameIsTaken(name)) refuse(status.alreadyExists, `Name ${name} is taken`)
      const box =
        cloud.create({
          name,
          image: request.snapshotId,
          labels: {},
          environment: {},
          lifeMs: 3_600_000,
        }) ?? refuse(status.notFound, "The snapshot does not exist")
      return { sandboxId: box.id, taskId: taskOf(box), tunnels: [], commandRouterAccess: access() }
    },
  }

  const router: Readonly<Record<string, Call>> = {
    taskExecStart: (request: ExecRequest) => {
      const output = cloud.run(boxOfTask(request), {
        argv: request.commandArgs,
        cwd: request.workdir || undefined,
        environment: environmentOf(request.secretSources),
        tag: request.execId,
      })
      outputs.set(request.execId, output)
      return {}
    },
    taskExecStdioRead: async function* (request: {
      readonly execId: string
      readonly fileDescriptor: number
    }) {
      const output = await outputs.get(request.execId)
      // Here, 0 is the standard output and 1 the error output.
      const data = request.fileDescriptor === 0 ? output?.stdout : output?.stderr
      if (data && data.length > 0) yield { data }
    },
    taskExecWait: async (request: { readonly execId: string }) => ({
      code: (await outputs.get(request.execId))?.exitCode ?? 0,
    }),
    taskSnapshotFilesystem: (request: ByTask) => ({
      imageId: newSnapshot(boxOfTask(request), "im"),
    }),
    taskSnapshotMemory: (request: ByTask) => {
      const box = boxOfTask(request)
      if (!canSnapshotMemory.has(box.id))
        refuse(status.failedPrecondition, "The sandbox was created without snapshots")
      return { snapshotId: newSnapshot(box, "sn") }
    },
  }

  const takeFailure = (method: string): number | undefined => {
    const index = failures.findIndex((one) => one.method === method)
    return index === -1 ? undefined : failures.splice(index, 1)[0]?.code
  }
  /** What every call passes before it is carried out. */
  const enter = async (name: string, request: unknown): Promise<void> => {
    calls.push({ name, request })
    const gate = gates.get(name)
    gates.delete(name)
    await gate
    const code = takeFailure(name)
    if (code !== undefined) refuse(code, "failed as the test asked for it")
  }

  const hang = () =>
    new Promise<never>((_, reject) => {
      faults.onClear(() => reject(new grpc.ServerError(status.unavailable, "the fault is over")))
      faults.hit()
    })
  const cut = (): Promise<never> => {
    proxy.reset()
    faults.hit()
    return refuse(status.unavailable, "cut")
  }
  const credentials = ({ metadata }: Context) =>
    `${metadata.get("x-modal-token-id")} ${metadata.get("x-modal-token-secret")}`

  const controlCall =
    (name: string, run: Call): Call =>
    async (request, context) => {
      await enter(name, request)
      if (credentials(context) !== `${MODAL_TOKEN_ID} ${MODAL_TOKEN_SECRET}`)
        refuse(status.unauthenticated, `Token ${credentials(context)} is not valid`)
      // The SDK asks for its token once, so it does not count as a request of a call.
      const kind = name === "authTokenGet" ? undefined : faults.take()
      if (kind === "hang-before") return hang()
      if (kind === "cut-before") return cut()
      if (kind === "too-many" || kind === "error") {
        faults.hit()
        const code = kind === "error" ? status.internal : status.resourceExhausted
        refuse(code, `failed: ${credentials(context)}`)
      }
      if (kind === "not-found") {
        faults.hit()
        refuse(status.notFound, `${name}: not found`)
      }
      const outcome = Promise.try(() => run(request, context))
      if (kind?.endsWith("-after")) await outcome.catch(() => {})
      if (kind === "hang-after") return hang()
      return kind === "cut-after" ? cut() : outcome
    }
  const routerCall =
    (name: string, run: Call): Call =>
    async (request, context) => {
      await enter(name, request)
      return run(request, context)
    }

  const implement = (
    { methods }: { readonly methods: Methods },
    known: Readonly<Record<string, Call>>,
    wrap: (name: string, run: Call) => Call,
  ) =>
    Object.fromEntries(
      Object.entries(methods).map(([name, { responseStream }]) => {
        const run = known[name]
        if (!run) return [name, () => refuse(12, `the double has no ${name}`)]
        return [name, responseStream ? run : wrap(name, run)]
      }),
    )

  const server = grpc.createServer()
  server.add(ModalClientDefinition, implement(ModalClientDefinition, control, controlCall))
  server.add(
    TaskCommandRouterDefinition,
    implement(TaskCommandRouterDefinition, router, routerCall),
  )
  counter.port = await server.listen("127.0.0.1:0")
  const proxy = await startTcpProxy(counter.port)
  return {
    url: `http://127.0.0.1:${proxy.port}`,
    cloud,
    clock,
    faults,
    calls,
    fail: (method, code, times = 1) =>
      void failures.push(...Array.from({ length: times }, () => ({ method, code }))),
    hold: (method, gate) => void gates.set(method, gate),
    finish: (id) => {
      boxOf({ sandboxId: id }).state = "stopped"
    },
    stop: async () => {
      server.forceShutdown()
      await proxy.stop()
      cloud.remove()
    },
  }
}
