/** The spec of a session's next sandbox. Its runner token is made here and valid from now on. */
import { digestOf } from "../lib/digest.ts"
import { hex } from "../lib/hmac.ts"
import type { Call } from "./core/life.ts"
import { assembleEnvironment } from "./core/environment.ts"
import type { OwnSources } from "./core/link-variables.ts"
import { GATEWAY_PORT, labelsOf, sandboxName, workspaceVolume } from "./core/names.ts"
import type { HubPort } from "./hub-port.ts"
import type { ImageChoice, SandboxSpec } from "./providers/contract.ts"
import type { StoredSession } from "./store/ports.ts"

export type EnvironmentOf = (tenant: string) => OwnSources

export interface SandboxSpecOptions {
  readonly hub: HubPort
  readonly deployment: string
  /** The version of this program, which names the image. */
  readonly version: string
  readonly resources: SandboxSpec["resources"]
  readonly environmentOf: EnvironmentOf
  /** Origins of pages that may show the sandbox in a frame and open its WebSockets. */
  readonly pageOrigins: readonly string[]
  readonly idleMs: number
  readonly lifeMs: number
  readonly hasVolumes: boolean
  readonly whisperVolume: string | undefined
  /** The base snapshot of this version; undefined: sandboxes are made from the image. */
  readonly base: () => Promise<string | undefined>
}

const randomHex = (): string => hex(crypto.getRandomValues(new Uint8Array(32)).buffer)
const hashOf = async (text: string): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)))

/** The workspace outlives sandboxes; everything else of a sandbox is in its snapshots. */
const volumesOf = (id: string, whisperVolume: string | undefined): SandboxSpec["volumes"] => [
  { name: workspaceVolume(id), path: "/workspace" },
  ...(whisperVolume === undefined
    ? []
    : [{ name: whisperVolume, path: "/models/whisper", readOnly: true } as const]),
]

/** What the session had comes first, then what every new sandbox can begin with. */
const imageOf = (
  snapshot: string | undefined,
  base: string | undefined,
  version: string,
): ImageChoice => {
  if (snapshot !== undefined) return { kind: "snapshot", id: snapshot }
  return base === undefined ? { kind: "image", id: version } : { kind: "base", id: base }
}

/** The address and the secrets of the runner's link to the hub. */
const makeLink = async (hub: HubPort, id: string, generation: number) => {
  const token = randomHex()
  const { runnerUrl, gatewayKey } = await hub.admitRunner(id, generation, await hashOf(token))
  return { DO_WS_URL: runnerUrl, RUNNER_TOKEN: token, JWT_SECRET: gatewayKey ?? randomHex() }
}

/** The object storage is this hub's. Another session agent that has one says so in the variables of its session. */
const forAnotherAgent = ({
  WORKSPACE_SYNC: _ofThisHub,
  ...others
}: Readonly<Record<string, string>>): Readonly<Record<string, string>> => others

export const createSandboxSpec =
  ({
    hub,
    deployment,
    version,
    resources,
    environmentOf,
    pageOrigins,
    idleMs,
    lifeMs,
    hasVolumes,
    whisperVolume,
    base,
  }: SandboxSpecOptions) =>
  async (
    { id, tenant, kind, environment, life }: StoredSession,
    { generation, snapshot }: Call & { readonly do: "create" },
  ): Promise<SandboxSpec> => {
    const isExternal = kind === "external"
    const link = isExternal ? {} : await makeLink(hub, id, generation)
    const sources = environmentOf(tenant)
    return {
      ...(isExternal && { hasForeignLink: true as const }),
      session: id,
      generation,
      name: sandboxName(id, generation, digestOf),
      labels: labelsOf(deployment, tenant, id, generation),
      image: imageOf(snapshot, kind === "base" ? undefined : await base(), version),
      environment: assembleEnvironment({
        ...sources,
        providerKeys: isExternal
          ? forAnotherAgent(sources.providerKeys)
          : // Its disk is one that its own sandboxes wrote, with the packages that its services need.
            { SNAPSHOT_HAS_DEPS: "1", ...sources.providerKeys },
        caller: environment,
        core: {
          ...link,
          SESSION_ID: id,
          // Another session agent has a page of its own, or none.
          ...(pageOrigins.length > 0 && !isExternal && { ALLOWED_ORIGINS: pageOrigins.join(",") }),
          ...(id.startsWith("orchestrator:") && { IS_ORCHESTRATOR: "true" }),
        },
      }),
      volumes: hasVolumes ? volumesOf(id, whisperVolume) : [],
      ports: [GATEWAY_PORT],
      resources,
      idleMs: life.idleMs ?? idleMs,
      lifeMs,
    }
  }
