/** The objects of the double of Kubernetes, and what its controllers do when one is made or changed. */
import { cpSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export const WARM_POOL = "sandboxes"
export const SNAPSHOT_CLASS = "fast"

/** The groups of the API and the kinds of each. */
export const groups: Readonly<Record<string, readonly string[]>> = {
  "api/v1": ["secrets", "pods", "persistentvolumeclaims"],
  "apis/extensions.agents.x-k8s.io/v1beta1": ["sandboxclaims"],
  "apis/agents.x-k8s.io/v1beta1": ["sandboxes"],
  "apis/snapshot.storage.k8s.io/v1": ["volumesnapshots"],
}

interface Mount {
  readonly name: string
  readonly mountPath: string
  readonly subPath?: string
}

export interface Manifest {
  readonly apiVersion?: string
  readonly kind?: string
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
      readonly emptyDir?: object
    }[]
    readonly containers?: readonly { readonly volumeMounts: readonly Mount[] }[]
    readonly dataSource?: { readonly kind: string; readonly name: string }
    readonly source?: { readonly persistentVolumeClaimName: string }
    readonly volumeSnapshotClassName?: string
    readonly warmPoolRef?: { readonly name: string }
    readonly additionalPodMetadata?: { readonly labels?: Readonly<Record<string, string>> }
    readonly operatingMode?: string
  }
}

export interface StoredObject {
  readonly uid: string
  readonly createdAt: string
  manifest: Manifest
  readonly folder: string
  phase: string
  status: object
  isDeleting: boolean
}

export interface ObjectStore {
  /** By kind and name, such as `pods/sp-a-1`. */
  readonly objects: ReadonlyMap<string, StoredObject>
  readonly put: (kind: string, manifest: Manifest) => StoredObject
  /** The owned objects go with their owner. */
  readonly remove: (key: string) => void
}

export const createObjectStore = (root: string): ObjectStore => {
  const objects = new Map<string, StoredObject>()
  const count = { made: 0 }
  const remove = (key: string): void => {
    const uid = objects.get(key)?.uid
    objects.delete(key)
    for (const [other, { manifest }] of objects)
      if (manifest.metadata.ownerReferences?.some((owner) => owner.uid === uid)) remove(other)
  }
  return {
    objects,
    remove,
    put: (kind, manifest) => {
      count.made += 1
      const folder = join(root, `object-${count.made}`)
      mkdirSync(folder)
      const object: StoredObject = {
        uid: `uid-${count.made}`,
        createdAt: new Date().toISOString(),
        manifest,
        folder,
        phase: kind === "pods" ? "Running" : "Active",
        status: {},
        isDeleting: false,
      }
      objects.set(`${kind}/${manifest.metadata.name}`, object)
      return object
    },
  }
}

const ownedBy = ({ uid }: StoredObject) => [{ uid }]

/** The pod of a Sandbox from the template of its warm pool: it waits for its environment in a directory in memory. */
const startPod = ({ objects, put }: ObjectStore, sandbox: StoredObject): void => {
  const { name, labels } = sandbox.manifest.metadata
  if (objects.has(`pods/${name}`)) return
  put("pods", {
    metadata: { name, labels: labels ?? {}, ownerReferences: ownedBy(sandbox) },
    spec: {
      volumes: [
        { name: "environment", emptyDir: { medium: "Memory" } },
        { name: "files", persistentVolumeClaim: { claimName: `files-${name}` } },
      ],
      containers: [
        {
          volumeMounts: [
            { name: "environment", mountPath: "/run/sandpiper" },
            { name: "files", mountPath: "/workspace", subPath: "workspace" },
          ],
        },
      ],
    },
  })
}

/** The controller of agent-sandbox gives a Sandbox of the pool to a new claim. */
const bindClaim = (store: ObjectStore, claim: StoredObject): void => {
  const { spec } = claim.manifest
  if (spec?.warmPoolRef?.name !== WARM_POOL) {
    claim.status = {
      conditions: [{ type: "Ready", status: "False", reason: "WarmPoolNotFound", message: "none" }],
    }
    return
  }
  // The name of a Sandbox is made by its pool.
  const name = `pool-${claim.uid}`
  const sandbox = store.put("sandboxes", {
    metadata: {
      name,
      labels: spec.additionalPodMetadata?.labels ?? {},
      ownerReferences: ownedBy(claim),
    },
    spec: { operatingMode: "Running" },
  })
  store.put("persistentvolumeclaims", {
    metadata: { name: `files-${name}`, ownerReferences: ownedBy(sandbox) },
  })
  startPod(store, sandbox)
  claim.status = { sandbox: { name, podIPs: ["10.1.2.3"] }, conditions: [] }
}

const copyFiles = (from: StoredObject | undefined, to: StoredObject): void => {
  if (from) cpSync(from.folder, to.folder, { recursive: true })
}

export const afterCreate = (store: ObjectStore, kind: string, object: StoredObject): void => {
  const { data, spec } = object.manifest
  if (kind === "secrets")
    for (const [file, text] of Object.entries(data ?? {}))
      writeFileSync(join(object.folder, file), Buffer.from(text, "base64"))
  if (kind === "persistentvolumeclaims" && spec?.dataSource)
    copyFiles(store.objects.get(`volumesnapshots/${spec.dataSource.name}`), object)
  if (kind === "volumesnapshots") {
    const source = store.objects.get(
      `persistentvolumeclaims/${spec?.source?.persistentVolumeClaimName}`,
    )
    copyFiles(source, object)
    const isKnown = spec?.volumeSnapshotClassName === SNAPSHOT_CLASS && source !== undefined
    object.status = isKnown ? { readyToUse: true } : { readyToUse: false }
  }
  if (kind === "sandboxclaims") bindClaim(store, object)
}

export const afterPatch = (store: ObjectStore, kind: string, object: StoredObject): void => {
  if (kind !== "sandboxes") return
  if (object.manifest.spec?.operatingMode === "Suspended")
    store.remove(`pods/${object.manifest.metadata.name}`)
  else startPod(store, object)
}

type Json = { readonly [name: string]: unknown }
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** A merge patch: null removes a field, objects are merged, everything else is replaced. */
export const merged = (value: unknown, patch: unknown): unknown => {
  if (!isObject(patch)) return patch
  const base = isObject(value) ? value : {}
  const changed = Object.entries(patch).map(([name, part]) => [name, merged(base[name], part)])
  return Object.fromEntries(
    [...Object.entries(base), ...changed].filter(([name]) => patch[String(name)] !== null),
  )
}
