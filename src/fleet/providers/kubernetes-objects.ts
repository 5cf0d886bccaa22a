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
  /** The image of sandboxes that are restored from a snapshot of their volume. */
  readonly image: string
}

/** Kubernetes' form of a name that is also a host name. */
export const isObjectName = (text: string): boolean =>
  /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text)

/** `sandbox`: the ref, on objects whose name is another one. */
export const label = (name: keyof SandboxLabels | "sandbox"): string => `sandpiper/${name}`

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

export const metadataOf = (spec: SandboxSpec, digest: PodOptions["digest"]) => ({
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

const volumeClaim = (name: string, size: string, snapshot?: string) => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: {
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: size } },
    ...(snapshot !== undefined && {
      dataSource: { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: snapshot },
    }),
  },
})

const containerOf = (spec: SandboxSpec, mounts: readonly unknown[], options: PodOptions) => {
  const { cpu, memoryMiB } = spec.resources
  const limits = {
    ...(cpu !== undefined && { cpu: String(cpu) }),
    ...(memoryMiB !== undefined && { memory: `${memoryMiB}Mi` }),
  }
  const probe = { httpGet: { path: "/health", port: 9000 }, timeoutSeconds: 5, periodSeconds: 10 }
  const filtersPackets = spec.environment["SANDBOX_EGRESS"] === "allow-list"
  return {
    name: "sandbox",
    // A snapshot has the files of the volume; the programs are the image's.
    image: spec.image.kind === "image" ? spec.image.id : options.image,
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

const podOf = (spec: SandboxSpec, options: PodOptions) => {
  const { digest } = options
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
      containers: [containerOf(spec, mounts, options)],
    },
  }
}

const objectSchema = z.looseObject({ metadata: z.looseObject({}) })
type KubernetesObject = z.output<typeof objectSchema>
const manifestSchema = z.object({
  /** Volume claims. */
  claims: z.array(objectSchema).default([]),
  pod: objectSchema.optional(),
  sandboxClaim: objectSchema.optional(),
})

export type SandboxManifest = z.input<typeof manifestSchema>

const base64 = (text: string): string => Buffer.from(text).toString("base64")

/** What has to be made for the start of a sandbox that is a pod. */
export const podManifest = (spec: SandboxSpec, options: PodOptions) => {
  const { digest, volumeSize } = options
  const snapshot = spec.image.kind === "image" ? undefined : spec.image.id
  return {
    claims: [
      volumeClaim(filesClaimName(spec.name), volumeSize, snapshot),
      ...spec.volumes.map(({ name }) => volumeClaim(volumeClaimName(name, digest), volumeSize)),
    ],
    pod: podOf(spec, options),
  }
}

/** The Secret of a new sandbox. What has to be made for its start is in it, so that a resume needs nothing else. */
export const secretOf = (
  spec: SandboxSpec,
  script: string,
  manifest: SandboxManifest,
  digest: PodOptions["digest"],
): unknown => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: spec.name, ...metadataOf(spec, digest) },
  type: "Opaque",
  data: { [ENVIRONMENT_FILE]: base64(script), manifest: base64(JSON.stringify(manifest)) },
})

/** The object belongs to the sandbox: the cluster deletes it with the sandbox's Secret. */
export const ownedBy = (
  { metadata: { name, uid } }: Pick<SandboxSecret, "metadata">,
  object: KubernetesObject,
): KubernetesObject => ({
  ...object,
  metadata: {
    ...object.metadata,
    ownerReferences: [{ apiVersion: "v1", kind: "Secret", name, uid }],
  },
})

/** The volume claims to make for a start. Those that outlive the sandbox do not belong to it. */
export const volumeClaimsOf = (secret: SandboxSecret): readonly KubernetesObject[] =>
  secret.manifest.claims.map((claim) =>
    claim.metadata["name"] === filesClaimName(secret.metadata.name)
      ? ownedBy(secret, claim)
      : claim,
  )

export const filesClaimOf = filesClaimName

const metadata = z.object({
  name: z.string(),
  uid: z.string(),
  creationTimestamp: z.string(),
  deletionTimestamp: z.string().optional(),
  annotations: z.record(z.string(), z.string()).default({}),
  labels: z.record(z.string(), z.string()).default({}),
})

const manifestText = z.string().transform((text, context) => {
  const parsed = manifestSchema.safeParse(parseJson(Buffer.from(text, "base64").toString()))
  if (parsed.success) return parsed.data
  context.addIssue("not a manifest")
  return z.NEVER
})

export const secretSchema = z
  .object({ metadata, data: z.object({ environment: z.string(), manifest: manifestText }) })
  .transform(({ metadata: head, data }) => ({
    metadata: head,
    manifest: data.manifest,
    script: Buffer.from(data.environment, "base64"),
  }))
export type SandboxSecret = z.output<typeof secretSchema>

export const podSchema = z.object({
  metadata,
  status: z.object({ phase: z.string().default("Pending"), podIP: z.string().optional() }).default({
    phase: "Pending",
  }),
})
export type SandboxPod = z.output<typeof podSchema>

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
