/**
 * Sandboxes of the agent-sandbox controller: a SandboxClaim takes a Sandbox from a warm pool, whose pod runs already and
 * waits for its environment. A stop suspends the Sandbox, which deletes its pod and keeps its volumes.
 */
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import type { ProviderResult } from "./contract.ts"
import { receiveCommand } from "./environment-file.ts"
import { type KubernetesApi, listed, poll } from "./kubernetes-api.ts"
import {
  infoOf,
  label,
  metadataOf,
  ownedBy,
  type PodOptions,
  podSchema,
  type SandboxPod,
  type SandboxSecret,
} from "./kubernetes-objects.ts"
import type { Workload } from "./kubernetes-pods.ts"

export interface ClaimOptions extends Pick<PodOptions, "digest"> {
  /** The SandboxWarmPool of the namespace from which sandboxes are taken. */
  readonly warmPool: string
  readonly clock: Clock
}

/** On a pod that has received its environment. The pod after a suspension is a new one without it. */
const DELIVERED = "sandpiper/environment"
/** An image that has to be pulled takes minutes. A start that was given up is continued by the next resume. */
const START_MS = 2 * 60_000

const claimSchema = z.object({
  metadata: z.object({ deletionTimestamp: z.string().optional() }),
  status: z
    .object({
      sandbox: z.object({ name: z.string().optional() }).optional(),
      conditions: z
        .array(z.object({ type: z.string(), message: z.string().optional() }))
        .optional(),
    })
    .default({}),
})

const isDelivered = (pod: SandboxPod): boolean =>
  pod.metadata.annotations[DELIVERED] === "delivered"

export const createClaims = (api: KubernetesApi, options: ClaimOptions): Workload => {
  const { clock } = options

  const readPod: Workload["pod"] = async (ref) => {
    const pods = await listed(api.list("pods", `${label("sandbox")}=${ref}`, podSchema))
    if (pods.is !== "ok") return pods
    // After a suspension the former pod may still be ending beside the new one.
    const isEnding = ({ metadata }: SandboxPod) => metadata.deletionTimestamp !== undefined
    const value = pods.value.find((pod) => !isEnding(pod)) ?? pods.value[0]
    return { is: "ok", value }
  }

  /** The name of the Sandbox that the controller has given to the claim. */
  const readSandbox = async (ref: string): Promise<ProviderResult<string | undefined>> => {
    const claim = await api.get("sandboxclaims", ref, claimSchema)
    if (claim.is !== "ok") return claim
    const { metadata, status } = claim.value
    if (metadata.deletionTimestamp !== undefined)
      return { is: "unknown", why: `the SandboxClaim ${ref} is being deleted` }
    const name = status.sandbox?.name
    return { is: "ok", value: name === "" ? undefined : name }
  }

  const deliver = async (
    secret: SandboxSecret,
    pod: SandboxPod,
    limit: AbortSignal,
  ): Promise<ProviderResult<void>> => {
    const { script } = secret
    const { name } = pod.metadata
    const written = await api.run(name, receiveCommand(script.length), limit, script)
    if (written.is !== "ok") return written
    if (written.value.exitCode !== 0)
      return { is: "unknown", why: `the environment was not written: ${written.value.stderr}` }
    const annotations = { [DELIVERED]: "delivered" }
    return api.patch("pods", name, { metadata: { annotations } }, limit)
  }

  const startWithin = async (
    secret: SandboxSecret,
    limit: AbortSignal,
  ): Promise<ProviderResult<void>> => {
    const ref = secret.metadata.name
    const { sandboxClaim } = secret.manifest
    if (!sandboxClaim)
      return { is: "refused", why: "the sandbox is a plain pod: unset KUBERNETES_WARM_POOL" }
    const made = await api.add("sandboxclaims", ownedBy(secret, sandboxClaim), { limit })
    if (made.is !== "ok") return made
    const time = { ms: START_MS, limit }
    const none = `the warm pool ${options.warmPool} has given no sandbox to the claim ${ref} yet`
    const sandbox = await poll(clock, time, none, () => readSandbox(ref))
    if (sandbox.is !== "ok") return sandbox
    const wanted = { spec: { operatingMode: "Running" } }
    const resumed = await api.patch("sandboxes", sandbox.value, wanted, limit)
    if (resumed.is !== "ok") return resumed
    const running = await poll(clock, time, `the pod of ${ref} does not run yet`, async () => {
      const pod = await readPod(ref)
      const runs = pod.is !== "ok" || infoOf(secret, pod.value).state === "running"
      return runs ? pod : { is: "ok", value: undefined }
    })
    if (running.is !== "ok") return running
    if (isDelivered(running.value)) return { is: "ok", value: undefined }
    return deliver(secret, running.value, limit)
  }

  const start: Workload["start"] = async (secret, limit) => {
    const deadline = new AbortController()
    const cancel = clock.after(START_MS, () => deadline.abort())
    try {
      const signal = limit ? AbortSignal.any([limit, deadline.signal]) : deadline.signal
      return await startWithin(secret, signal)
    } finally {
      cancel()
    }
  }

  return {
    manifestOf: (spec) => {
      const { labels, annotations } = metadataOf(spec, options.digest)
      return {
        sandboxClaim: {
          apiVersion: "extensions.agents.x-k8s.io/v1beta1",
          kind: "SandboxClaim",
          metadata: { name: spec.name, labels, annotations },
          spec: {
            warmPoolRef: { name: options.warmPool },
            additionalPodMetadata: { labels: { ...labels, [label("sandbox")]: spec.name } },
          },
        },
      }
    },
    start,
    stop: async (ref) => {
      const sandbox = await readSandbox(ref)
      if (sandbox.is === "missing") return { is: "ok", value: undefined }
      if (sandbox.is !== "ok") return sandbox
      if (sandbox.value === undefined) return api.remove("sandboxclaims", ref)
      const stopped = await api.patch("sandboxes", sandbox.value, {
        spec: { operatingMode: "Suspended" },
      })
      return stopped.is === "missing" ? { is: "ok", value: undefined } : stopped
    },
    // The Sandbox, its pod and its volumes belong to the claim.
    remove: (ref) => api.remove("sandboxclaims", ref),
    pod: readPod,
    refOf: ({ metadata }) => metadata.labels[label("sandbox")] ?? "",
    info: (secret, pod) => {
      const info = infoOf(secret, pod)
      // It waits for its environment, which a resume delivers.
      return info.state === "running" && pod && !isDelivered(pod)
        ? { ...info, state: "stopped" }
        : info
    },
  }
}
