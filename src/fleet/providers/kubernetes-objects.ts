/**
 * The objects of a sandbox in Kubernetes. Its Secret is the sandbox: it has the name, the labels, the environment and the
 * manifest of its Pod. The Pod exists while the sandbox runs; its files are on a volume that stays. Pure.
 */
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"
import type { SandboxInfo, SandboxLabels, SandboxSpec } from "./contract.ts"
import { ENVIRONMENT_FILE, ENVIRONMENT_FOLDER, startCommand } from "./environment-file.ts"

export interface PodOptions {
  readonly digest: (text: string) => string
  /** The size of each volume, such as `10Gi`. */
  readonly volumeSize: string
}

/** Kubernetes' form of a name that is also a host name. */
export const isObjectName = (text: string): boolean =>
  /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text)

export const label = (name: keyof SandboxLabels): string => `sandpiper/${name}`

const hexOf = (text: string, digest: (text: string) => string): string =>
  digest(text).replace(/^.*:/, "").slice(0, 40)

/** The value of a label has 63 characters of a small alphabet. Other texts are known by their digest. */
export const labelValue = (text: string, digest: (text: string) => string): string =>
  /^[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/.test(text) ? text : `digest-${hexOf(text, digest)}`

export const volumeClaimName = (volume: string, digest: (text: string) => string): string =>
  isObjectName(volume) ? volume : `volume-${hexOf(volume, digest)}`

const filesClaimName = (name: string): string => `${name.slice(0, 57)}-files`

/** Directories of a sandbox that a pause keeps. Everything else is the image's again after a resume. */
const KEPT = { workspace: "/workspace", state: "/var/lib/sandpiper" } as const
const STARTUP_SECONDS = 120

const metadataOf = (spec: SandboxSpec, digest: PodOptions["digest"]) => ({
  labels: Object.fromEntries(
    (["deployment", "session", "generation"] as const).map((name) => [
      label(name),
      labelValue(spec.labels[name], digest),
    ]),
  ),
  /** The labels in full, since a label's value is short. */
  annotations: {
    [label("deployment")]: spec.labels.deployment,
    [label("tenant")]: spec.labels.tenant,
    [label("session")]: spec.labels.session,
    [label("generation")]: spec.labels.generation,
  },
})

const volumeClaim = (name: string, size: string) => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: size } } },
})

const containerOf = (spec: SandboxSpec, mounts: readonly unknown[]) => {
  const { cpu, memoryMiB } = spec.resources
  const limits = {
    ...(cpu !== undefined && { cpu: String(cpu) }),
    ...(memoryMiB !== undefined && { memory: `${memoryMiB}Mi` }),
  }
  const probe = { httpGet: { path: "/health", port: 9000 }, timeoutSeconds: 5, periodSeconds: 10 }
  const filtersPackets = spec.environment["SANDBOX_EGRESS"] === "allow-list"
  return {
    name: "sandbox",
    image: spec.image.id,
    command: startCommand,
    ports: spec.ports.map((containerPort) => ({ containerPort })),
    volumeMounts: mounts,
    resources: { limits },
    startupProbe: { ...probe, periodSeconds: 2, failureThreshold: STARTUP_SECONDS / 2 },
    // A runner that hangs is started again; its files are on the volume.
    livenessProbe: { ...probe, failureThreshold: 6 },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: {
        drop: ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SYS_CHROOT"],
        // The runner's packet filter closes the network for the agent's user.
        add: filtersPackets ? ["NET_ADMIN"] : [],
      },
    },
  }
}

const podOf = (spec: SandboxSpec, { digest }: PodOptions) => {
  const own = Object.entries(KEPT).filter(
    ([, path]) => !spec.volumes.some((volume) => volume.path === path),
  )
  const named = spec.volumes.map(({ name, path, readOnly }, index) => ({
    volume: {
      name: `volume-${index}`,
      persistentVolumeClaim: { claimName: volumeClaimName(name, digest) },
    },
    mount: { name: `volume-${index}`, mountPath: path, readOnly: readOnly === true },
  }))
  const mounts = [
    { name: "environment", mountPath: ENVIRONMENT_FOLDER, readOnly: true },
    ...own.map(([subPath, mountPath]) => ({ name: "files", mountPath, subPath })),
    ...named.map(({ mount }) => mount),
  ]
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: spec.name, ...metadataOf(spec, digest) },
    spec: {
      restartPolicy: "Always",
      // Nothing in the sandbox may use the cluster's API or learn its services.
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 20,
      securityContext: { seccompProfile: { type: "RuntimeDefault" } },
      volumes: [
        {
          name: "environment",
          secret: {
            secretName: spec.name,
            defaultMode: 0o400,
            items: [{ key: ENVIRONMENT_FILE, path: ENVIRONMENT_FILE }],
          },
        },
        { name: "files", persistentVolumeClaim: { claimName: filesClaimName(spec.name) } },
        ...named.map(({ volume }) => volume),
      ],
      containers: [containerOf(spec, mounts)],
    },
  }
}

const objectSchema = z.looseObject({ metadata: z.looseObject({}) })
const manifestSchema = z.object({ claims: z.array(objectSchema), pod: objectSchema })
export type SandboxManifest = z.output<typeof manifestSchema>

const base64 = (text: string): string => Buffer.from(text).toString("base64")

/** The Secret of a new sandbox. What has to be made for its start is in it, so that a resume needs nothing else. */
export const secretOf = (spec: SandboxSpec, script: string, options: PodOptions): unknown => {
  const { digest, volumeSize } = options
  const names = [
    filesClaimName(spec.name),
    ...spec.volumes.map(({ name }) => volumeClaimName(name, digest)),
  ]
  const claims = names.map((name) => volumeClaim(name, volumeSize))
  const manifest = { claims, pod: podOf(spec, options) }
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: spec.name, ...metadataOf(spec, digest) },
    type: "Opaque",
    data: { [ENVIRONMENT_FILE]: base64(script), manifest: base64(JSON.stringify(manifest)) },
  }
}

/** The objects to make for a start. What belongs to this sandbox alone is deleted with its Secret. */
export const ownedManifest = (secret: SandboxSecret): SandboxManifest => {
  const { name, uid } = secret.metadata
  const ownerReferences = [{ apiVersion: "v1", kind: "Secret", name, uid }]
  const owned = (object: z.output<typeof objectSchema>) => ({
    ...object,
    metadata: { ...object.metadata, ownerReferences },
  })
  const { claims, pod } = secret.manifest
  const isOwn = ({ metadata }: z.output<typeof objectSchema>) =>
    metadata["name"] === filesClaimName(name)
  return { pod: owned(pod), claims: claims.map((claim) => (isOwn(claim) ? owned(claim) : claim)) }
}

export const filesClaimOf = filesClaimName

const metadata = z.object({
  name: z.string(),
  uid: z.string(),
  creationTimestamp: z.string(),
  deletionTimestamp: z.string().optional(),
  annotations: z.record(z.string(), z.string()).default({}),
})

const manifestText = z.string().transform((text, context) => {
  const parsed = manifestSchema.safeParse(parseJson(Buffer.from(text, "base64").toString()))
  if (parsed.success) return parsed.data
  context.addIssue("not a manifest")
  return z.NEVER
})

export const secretSchema = z
  .object({ metadata, data: z.object({ manifest: manifestText }) })
  .transform(({ metadata: head, data }) => ({ metadata: head, manifest: data.manifest }))
export type SandboxSecret = z.output<typeof secretSchema>

export const podSchema = z.object({
  metadata,
  status: z.object({ phase: z.string().default("Pending"), podIP: z.string().optional() }).default({
    phase: "Pending",
  }),
})
export type SandboxPod = z.output<typeof podSchema>

/** One page of a list. */
export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    metadata: z.object({ continue: z.string().optional() }).default({}),
    items: z.array(item),
  })

const stateOf = (pod: SandboxPod | undefined): SandboxInfo["state"] => {
  if (!pod || pod.metadata.deletionTimestamp !== undefined) return "paused"
  switch (pod.status.phase) {
    case "Running":
      return "running"
    case "Succeeded":
    case "Failed":
      return "stopped"
    default:
      return "starting"
  }
}

export const infoOf = (
  { metadata: { name, annotations, creationTimestamp } }: Pick<SandboxSecret, "metadata">,
  pod: SandboxPod | undefined,
): SandboxInfo => {
  const generation = Number(annotations[label("generation")] ?? Number.NaN)
  const createdAt = Date.parse(creationTimestamp)
  return {
    ref: name,
    state: stateOf(pod),
    session: annotations[label("session")],
    generation: Number.isSafeInteger(generation) ? generation : undefined,
    createdAt: Number.isNaN(createdAt) ? undefined : createdAt,
    expiresAt: undefined,
  }
}

export const deploymentOf = ({ metadata: { annotations } }: SandboxSecret): string | undefined =>
  annotations[label("deployment")]
