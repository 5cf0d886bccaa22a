/** Sandboxes as plain pods: a start makes the volume claims and the Pod, a stop deletes the Pod and keeps the volume. */
import type { ProviderResult, SandboxInfo, SandboxSpec } from "./contract.ts"
import { isThere, type KubernetesApi, rules } from "./kubernetes-api.ts"
import {
  filesClaimOf,
  infoOf,
  ownedBy,
  podManifest,
  type PodOptions,
  type SandboxManifest,
  podSchema,
  type SandboxPod,
  type SandboxSecret,
  volumeClaimsOf,
} from "./kubernetes-objects.ts"

/** How a sandbox of the provider kubernetes runs. Its Secret is made before and removed afterwards. */
export interface Workload {
  readonly manifestOf: (spec: SandboxSpec) => SandboxManifest
  /** Makes what a start needs and does not exist. Also finishes a create that was given up. */
  readonly start: (secret: SandboxSecret, limit?: AbortSignal) => Promise<ProviderResult<void>>
  readonly stop: (ref: string) => Promise<ProviderResult<void>>
  readonly remove: (ref: string) => Promise<ProviderResult<void>>
  /** Undefined: there is no pod at the moment. */
  readonly pod: (ref: string) => Promise<ProviderResult<SandboxPod | undefined>>
  /** The ref of the sandbox to which a pod belongs. */
  readonly refOf: (pod: SandboxPod) => string
  readonly info: (secret: SandboxSecret, pod: SandboxPod | undefined) => SandboxInfo
}

/** A pod that is being deleted is gone after its grace period at the latest. */
const AGAIN_MS = 2000

export const createPods = (api: KubernetesApi, options: PodOptions): Workload => {
  const { http, at } = api
  const readPod: Workload["pod"] = async (ref) => {
    const found = await api.get("pods", ref, podSchema)
    return found.is === "missing" ? { is: "ok", value: undefined } : found
  }

  const start: Workload["start"] = async (secret, limit) => {
    const more = limit ? { limit } : {}
    const ref = secret.metadata.name
    const { pod } = secret.manifest
    if (!pod)
      return { is: "refused", why: "the sandbox is a SandboxClaim: set KUBERNETES_WARM_POOL again" }
    for (const claim of volumeClaimsOf(secret)) {
      const made = await api.add("persistentvolumeclaims", claim, more)
      if (made.is !== "ok") return made
    }
    const call = { method: "POST", path: at("pods"), json: ownedBy(secret, pod), ...more } as const
    const answer = await http.send(call)
    if (answer.status === undefined || !isThere(answer)) {
      const made = http.resultOf(call, answer, { ...rules, read: () => true })
      return made.is === "ok" ? { is: "ok", value: undefined } : made
    }
    const found = await readPod(ref)
    if (found.is !== "ok") return found
    const { state } = infoOf(secret, found.value)
    if (state === "running" || state === "starting") return { is: "ok", value: undefined }
    // It has ended, or is being deleted: its name is free again in a moment.
    const removed = await api.remove("pods", ref)
    if (removed.is !== "ok") return removed
    return { is: "unknown", why: "the former pod is being deleted", afterMs: AGAIN_MS }
  }

  return {
    manifestOf: (spec) => podManifest(spec, options),
    start,
    stop: (ref) => api.remove("pods", ref),
    remove: async (ref) => {
      const removed = await api.remove("pods", ref)
      return removed.is === "ok" ? api.remove("persistentvolumeclaims", filesClaimOf(ref)) : removed
    },
    pod: readPod,
    refOf: ({ metadata }) => metadata.name,
    info: infoOf,
  }
}
