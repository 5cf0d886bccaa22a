/** Labels and names in a cloud: what the fleet writes at the create and reads back from a list. */
import { shortDigest } from "../../lib/digest.ts"
import type { SandboxInfo, SandboxLabels } from "./contract.ts"

export type CloudLabels = Readonly<Record<string, string>>

export const toCloudLabels = (labels: SandboxLabels): CloudLabels => ({
  "sandpiper-deployment": labels.deployment,
  "sandpiper-tenant": labels.tenant,
  "sandpiper-session": labels.session,
  "sandpiper-generation": labels.generation,
})

/** The labels that a list is filtered by. */
export const labelsToFind = (by: {
  readonly deployment: string
  readonly session?: string
}): CloudLabels => ({
  "sandpiper-deployment": by.deployment,
  ...(by.session !== undefined && { "sandpiper-session": by.session }),
})

export const hasLabels = (labels: CloudLabels, wanted: CloudLabels): boolean =>
  Object.entries(wanted).every(([name, value]) => labels[name] === value)

export const ownerOf = (labels: CloudLabels): Pick<SandboxInfo, "session" | "generation"> => {
  const generation = labels["sandpiper-generation"] ?? ""
  return {
    session: labels["sandpiper-session"],
    generation: /^\d{1,9}$/.test(generation) ? Number(generation) : undefined,
  }
}

export interface IdleBuffer {
  /** So much longer than the fleet the provider waits before it stops an idle sandbox: it only acts if the fleet does not. */
  readonly idleBufferMs: number
}

/** A name that every cloud accepts and that is not the result of `cloudVolumeName` for another one. */
const PLAIN_VOLUME = /^[A-Za-z0-9](?!.*-[0-9a-f]{16}$)[A-Za-z0-9-]{0,62}$/

/** The name of a volume in letters that every cloud accepts. Different names stay different. */
export const cloudVolumeName = (name: string): string => {
  if (PLAIN_VOLUME.test(name)) return name
  const readable = name.replaceAll(/[^A-Za-z0-9]+/g, "-").replaceAll(/^-+|-+$/g, "")
  const digest = shortDigest(name, 16)
  return `${readable.slice(0, 40) || "volume"}-${digest}`
}

const keyOf = (deployment: string): string => shortDigest(deployment, 16)

/** The name of a snapshot in a cloud whose snapshots have no labels: whose it is and when it was made. */
export const cloudSnapshotName = (labels: CloudLabels, at: number): string => {
  const deployment = labels["sandpiper-deployment"]
  const owner = deployment === undefined ? "none" : keyOf(deployment)
  return `sp-${owner}-${at}-${crypto.randomUUID().slice(0, 8)}`
}

/** When the snapshot of this name was made; undefined if it is not one of this deployment. */
export const readCloudSnapshotName = (name: string, deployment: string): number | undefined => {
  const [, owner, at] = /^sp-([0-9a-f]{16})-(\d{1,15})-[0-9a-f]{8}$/.exec(name) ?? []
  return owner === keyOf(deployment) ? Number(at) : undefined
}
