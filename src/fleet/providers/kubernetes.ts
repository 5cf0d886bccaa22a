/**
 * Sandboxes in Kubernetes, over its REST API. A sandbox is a Secret; what runs is a plain pod, or with a warm pool a
 * SandboxClaim. A pause deletes the pod and keeps its volume, and a resume makes the pod again.
 */
import type { Clock } from "../../lib/clock.ts"
import {
  type ProviderResult,
  type SandboxInfo,
  type SandboxProvider,
  UnsupportedError,
} from "./contract.ts"
import {
  commandIn,
  commandWithEnvironment,
  environmentScript,
  killCommand,
} from "./environment-file.ts"
import { createKubernetesApi, type KubernetesApiOptions, parsed, rules } from "./kubernetes-api.ts"
import { createClaims } from "./kubernetes-claims.ts"
import {
  deploymentOf,
  isObjectName,
  label,
  labelValue,
  type PodOptions,
  podSchema,
  type SandboxPod,
  type SandboxSecret,
  secretOf,
  secretSchema,
  volumeClaimName,
} from "./kubernetes-objects.ts"
import { createPods } from "./kubernetes-pods.ts"
import { createVolumeSnapshots, noVolumeSnapshots } from "./kubernetes-snapshots.ts"

export interface KubernetesProviderOptions extends PodOptions, KubernetesApiOptions {
  /** Sandboxes are taken from this SandboxWarmPool of the agent-sandbox controller. Absent: plain pods. */
  readonly warmPool?: string | undefined
  /** The VolumeSnapshotClass of snapshots. Absent: there are none. */
  readonly snapshotClass?: string | undefined
  readonly clock: Clock
  /** How long the end of a command that has reached its limit may take. */
  readonly killMs?: number
}

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const

export const createKubernetesProvider = (options: KubernetesProviderOptions): SandboxProvider => {
  const { clock, digest, namespace, snapshotClass, warmPool, killMs = 5000 } = options
  const api = createKubernetesApi(options)
  const { http, at } = api
  const workload =
    warmPool === undefined
      ? createPods(api, options)
      : createClaims(api, { digest, clock, warmPool })
  // The volumes of a SandboxClaim are made by its controller.
  const hasOwnVolumes = warmPool === undefined
  const snapshots =
    snapshotClass === undefined || !hasOwnVolumes
      ? noVolumeSnapshots
      : createVolumeSnapshots(api, { clock, snapshotClass })

  const readSecret = async (ref: string): Promise<ProviderResult<SandboxSecret>> => {
    if (!isObjectName(ref)) return missing
    const found = await api.get("secrets", ref, secretSchema)
    // A secret that is being deleted does not come back.
    return found.is === "ok" && found.value.metadata.deletionTimestamp !== undefined
      ? missing
      : found
  }

  const look = async (
    ref: string,
  ): Promise<
    ProviderResult<{ readonly info: SandboxInfo; readonly pod: SandboxPod | undefined }>
  > => {
    const secret = await readSecret(ref)
    if (secret.is !== "ok") return secret
    const pod = await workload.pod(ref)
    return pod.is === "ok"
      ? { is: "ok", value: { info: workload.info(secret.value, pod.value), pod: pod.value } }
      : pod
  }

  /** Why this provider cannot make the sandbox. */
  const problemOf = (spec: Parameters<SandboxProvider["create"]>[0]): string | undefined => {
    if (!isObjectName(spec.name)) return `${spec.name} is not a pod's name`
    if (spec.resources.pids !== undefined)
      return "Kubernetes limits processes per node, not per sandbox"
    if (hasOwnVolumes) return undefined
    if (spec.volumes.length > 0) return "the template of the warm pool decides about volumes"
    const hasLimits = Object.values(spec.resources).some((value) => value !== undefined)
    return hasLimits ? "the template of the warm pool decides about limits" : undefined
  }

  /** The name of the pod in which a command runs. */
  const podNameOf = async (ref: string): Promise<ProviderResult<string>> => {
    const secret = await readSecret(ref)
    if (secret.is !== "ok" || hasOwnVolumes)
      return secret.is === "ok" ? { is: "ok", value: ref } : secret
    const pod = await workload.pod(ref)
    if (pod.is !== "ok") return pod
    return pod.value
      ? { is: "ok", value: pod.value.metadata.name }
      : { is: "unknown", why: `the sandbox ${ref} has no pod at the moment` }
  }

  return {
    name: "kubernetes",
    can: {
      // Without its memory: the runner starts again with the files of the volume.
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: snapshots === noVolumeSnapshots ? "none" : "copy",
      supportsMemorySnapshot: false,
      volumes: hasOwnVolumes,
      uniqueNames: true,
      limits: hasOwnVolumes ? ["cpu", "memoryMiB"] : [],
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* ({ deployment, session }) {
      const selector = [
        `${label("deployment")}=${labelValue(deployment, digest)}`,
        ...(session === undefined ? [] : [`${label("session")}=${labelValue(session, digest)}`]),
      ].join(",")
      const secrets = await api.list("secrets", selector, secretSchema)
      const pods = await api.list("pods", selector, podSchema)
      const isEnding = ({ metadata }: SandboxPod) => metadata.deletionTimestamp !== undefined
      // A pod that is ending does not hide the one that follows it.
      const ordered = [...pods.filter(isEnding), ...pods.filter((pod) => !isEnding(pod))]
      const byRef = new Map(ordered.map((pod) => [workload.refOf(pod), pod]))
      for (const secret of secrets) {
        if (secret.metadata.deletionTimestamp !== undefined) continue
        const info = workload.info(secret, byRef.get(secret.metadata.name))
        if (deploymentOf(secret) !== deployment) continue
        if (session === undefined || info.session === session) yield info
      }
    },
    look: async (ref) => {
      const found = await look(ref)
      return found.is === "ok" ? { is: "ok", value: found.value.info } : found
    },
    create: async (spec, limit) => {
      const problem = problemOf(spec)
      if (problem !== undefined) return { is: "refused", why: problem }
      const script = environmentScript(spec.environment)
      if (script === undefined)
        return { is: "refused", why: "a variable of the sandbox has an unusable name or value" }
      if (spec.image.kind !== "image") {
        const found = await snapshots.check(spec.image.id)
        if (found.is !== "ok") return found
      }
      const secret = await http.call(
        {
          method: "POST",
          path: at("secrets"),
          json: secretOf(spec, script, workload.manifestOf(spec), digest),
          limit,
          secrets: Object.values(spec.environment),
        },
        { ...rules, read: parsed(secretSchema) },
      )
      if (secret.is === "missing")
        return { is: "refused", why: `the namespace ${namespace} does not exist` }
      if (secret.is !== "ok") return secret
      const started = await workload.start(secret.value, limit)
      if (started.is === "ok") return { is: "ok", value: { ref: spec.name } }
      if (started.is !== "refused")
        return started.is === "missing"
          ? { is: "unknown", why: `objects of ${spec.name} are gone` }
          : started
      // A refusal leaves nothing behind.
      const removed = await api.remove("secrets", spec.name)
      return removed.is === "ok" ? started : { is: "unknown", why: started.why }
    },
    pause: async (ref) => {
      const secret = await readSecret(ref)
      return secret.is === "ok" ? workload.stop(ref) : secret
    },
    resume: async (ref) => {
      const secret = await readSecret(ref)
      if (secret.is !== "ok") return secret
      const started = await workload.start(secret.value)
      if (started.is === "missing")
        return { is: "unknown", why: `objects of ${ref} were deleted during its start` }
      return started.is === "ok" ? { is: "ok", value: {} } : started
    },
    snapshot: async (ref, kind, limit) => {
      if (kind === "memory") throw new UnsupportedError("kubernetes", "snapshots of memory")
      if (snapshots === noVolumeSnapshots) throw new UnsupportedError("kubernetes", "snapshots")
      const secret = await readSecret(ref)
      return secret.is === "ok" ? snapshots.take(secret.value, limit) : secret
    },
    removeSnapshot: snapshots.removeSnapshot,
    listSnapshots: ({ deployment }) =>
      snapshots.list(deployment, `${label("deployment")}=${labelValue(deployment, digest)}`),
    terminate: async (ref) => {
      if (!isObjectName(ref)) return ok
      // The Secret goes last: as long as it is there, the end is tried again.
      const removed = await workload.remove(ref)
      return removed.is === "ok" ? api.remove("secrets", ref) : removed
    },
    keepAlive: async (ref) => {
      const secret = await readSecret(ref)
      return secret.is === "ok" ? ok : secret
    },
    address: async (ref, port) => {
      const found = await look(ref)
      if (found.is !== "ok") return found
      const { info, pod } = found.value
      const ip = info.state === "running" ? pod?.status.podIP : undefined
      if (ip === undefined) return { is: "refused", why: `the sandbox is ${info.state}` }
      const host = ip.includes(":") ? `[${ip}]` : ip
      return { is: "ok", value: { url: `http://${host}:${port}`, headers: {} } }
    },
    exec: async (ref, command, limit) => {
      const pod = await podNameOf(ref)
      if (pod.is !== "ok") return pod
      const run = (argv: readonly string[], signal: AbortSignal) => api.run(pod.value, argv, signal)
      // The runner ends on this signal, and the cluster starts its container again.
      if (command.argv[0] === "/start.sh") return run(["/bin/sh", "-c", "kill -TERM 1"], limit)
      if (Object.keys(command.environment ?? {}).length > 0)
        return {
          is: "refused",
          why: "Kubernetes passes variables to a command only on its command line, where the agent reads them",
        }
      const mark = `command-${crypto.randomUUID()}`
      const words = command.cwd === undefined ? command.argv : commandIn(command.cwd, command.argv)
      const result = await run(commandWithEnvironment(mark, words), limit)
      if (limit.aborted) await run(killCommand(mark), AbortSignal.timeout(killMs))
      return result
    },
    removeVolume: (name) => api.remove("persistentvolumeclaims", volumeClaimName(name, digest)),
    health: async () => {
      const found = await http.done(
        {
          method: "GET",
          path: at(warmPool === undefined ? "secrets" : "sandboxclaims"),
          query: { limit: "1" },
        },
        rules,
      )
      return found.is === "missing"
        ? { is: "refused", why: `the namespace ${namespace} does not exist` }
        : found
    },
  }
}
