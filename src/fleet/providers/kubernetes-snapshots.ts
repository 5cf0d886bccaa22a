/** Snapshots of a sandbox's volume: VolumeSnapshots of a class that the cluster's storage has. */
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import {
  type ProviderResult,
  type SandboxProvider,
  type SnapshotInfo,
  UnsupportedError,
} from "./contract.ts"
import { type KubernetesApi, poll } from "./kubernetes-api.ts"
import { filesClaimOf, isObjectName, label, type SandboxSecret } from "./kubernetes-objects.ts"

export interface VolumeSnapshotOptions {
  /** The VolumeSnapshotClass. */
  readonly snapshotClass: string
  readonly clock: Clock
}

const SNAPSHOT_MS = 10 * 60_000

const snapshotSchema = z.object({
  metadata: z.object({
    name: z.string(),
    creationTimestamp: z.string(),
    deletionTimestamp: z.string().optional(),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  status: z
    .object({
      readyToUse: z.boolean().optional(),
      error: z.object({ message: z.string().optional() }).optional(),
    })
    .default({}),
})

export interface VolumeSnapshots extends Pick<SandboxProvider, "removeSnapshot"> {
  /** Those with the labels of this selector whose annotation names the deployment. */
  readonly list: (deployment: string, selector: string) => AsyncIterable<SnapshotInfo>
  readonly take: (
    secret: SandboxSecret,
    limit: AbortSignal,
  ) => Promise<ProviderResult<{ readonly id: string }>>
  /** Whether the snapshot can be restored. */
  readonly check: (id: string) => Promise<ProviderResult<void>>
}

export const createVolumeSnapshots = (
  api: KubernetesApi,
  { clock, snapshotClass }: VolumeSnapshotOptions,
): VolumeSnapshots => {
  /** Undefined: the storage still copies. */
  const readReady = async (name: string): Promise<ProviderResult<true | undefined>> => {
    const found = await api.get("volumesnapshots", name, snapshotSchema)
    if (found.is !== "ok") return found
    const { metadata, status } = found.value
    if (metadata.deletionTimestamp !== undefined) return { is: "missing" }
    return { is: "ok", value: status.readyToUse === true ? true : undefined }
  }

  return {
    take: async ({ metadata: { name: ref, labels, annotations } }, limit) => {
      const id = `${ref.slice(0, 40)}-${crypto.randomUUID().slice(0, 18)}`
      const made = await api.add(
        "volumesnapshots",
        {
          apiVersion: "snapshot.storage.k8s.io/v1",
          kind: "VolumeSnapshot",
          metadata: { name: id, labels, annotations },
          spec: {
            volumeSnapshotClassName: snapshotClass,
            source: { persistentVolumeClaimName: filesClaimOf(ref) },
          },
        },
        { limit },
      )
      if (made.is === "missing") return { is: "unknown", why: "the namespace is gone" }
      if (made.is !== "ok") return made
      const why = `the VolumeSnapshot ${id} is not ready yet`
      const ready = await poll(clock, { ms: SNAPSHOT_MS, limit }, why, () => readReady(id))
      if (ready.is === "missing") return { is: "unknown", why: `the VolumeSnapshot ${id} is gone` }
      return ready.is === "ok" ? { is: "ok", value: { id } } : ready
    },
    check: async (id) => {
      if (!isObjectName(id)) return { is: "missing" }
      const found = await readReady(id)
      if (found.is !== "ok") return found
      if (found.value === undefined)
        return { is: "unknown", why: `the VolumeSnapshot ${id} is not ready yet` }
      return { is: "ok", value: undefined }
    },
    list: async function* (deployment, selector) {
      for (const { metadata } of await api.list("volumesnapshots", selector, snapshotSchema))
        if (metadata.annotations[label("deployment")] === deployment)
          yield { id: metadata.name, createdAt: Date.parse(metadata.creationTimestamp) }
    },
    removeSnapshot: async (id) =>
      isObjectName(id) ? api.remove("volumesnapshots", id) : { is: "ok", value: undefined },
  }
}

/** For a cluster without a VolumeSnapshotClass. */
export const noVolumeSnapshots: VolumeSnapshots = {
  take: () => Promise.reject(new UnsupportedError("kubernetes", "snapshots")),
  // It may exist: this provider cannot use it as it is configured.
  check: async () => ({
    is: "refused",
    why: "the session was saved in a VolumeSnapshot: set KUBERNETES_SNAPSHOT_CLASS to restore it",
  }),
  list: async function* () {},
  removeSnapshot: async () => ({ is: "ok", value: undefined }),
}
