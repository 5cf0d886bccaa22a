/** Names and labels of sandboxes and volumes. Pure: the digest is a parameter. */
import type { SandboxLabels } from "../providers/contract.ts"

/** The port of the gateway in a sandbox. */
export const GATEWAY_PORT = 9000

/** Letters, digits and dashes: every provider accepts it. The digest keeps different ids apart. */
export const sandboxName = (
  session: string,
  generation: number,
  digest: (text: string) => string,
): string => {
  const readable = session
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 24)
  const unique = digest(session).replace(/^.*:/, "").slice(0, 10)
  return ["sp", ...(readable === "" ? [] : [readable]), unique, String(generation)].join("-")
}

export const labelsOf = (
  deployment: string,
  tenant: string,
  session: string,
  generation: number,
): SandboxLabels => ({ deployment, tenant, session, generation: String(generation) })

const SHARED = "workspace-orchestrator-"

/** `orchestrator:<user>:<uuid>` sessions of one user share a workspace. */
export const workspaceVolume = (session: string): string => {
  const user = /^orchestrator:([^:]+):[^:]+$/.exec(session)?.[1]
  return user === undefined ? `workspace-${session}` : `${SHARED}${user}`
}

/** Whether several sessions may have this volume. */
export const isSharedVolume = (volume: string): boolean => volume.startsWith(SHARED)
