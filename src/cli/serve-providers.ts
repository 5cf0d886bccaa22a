/** The sandbox providers of `serve`, each made from its settings and loaded when it is chosen. */
import type { ProviderMakers } from "../fleet/providers/choose.ts"
import { elsewhere } from "../fleet/providers/elsewhere.ts"
import { createNoopProvider } from "../fleet/providers/noop.ts"
import { systemClock } from "../lib/clock.ts"
import { digestOf } from "../lib/digest.ts"
import type { Log } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { createLocalSandboxes } from "./local-sandboxes.ts"

/** The hub listens on this machine's loopback: a sandbox with a network of its own does not reach it there. */
const hubUrlFor = ({ sandboxHubUrl }: Settings, sandboxes: string): string => {
  if (sandboxHubUrl !== undefined) return sandboxHubUrl
  throw new SettingsError(
    `SANDBOX_HUB_URL is missing: ${sandboxes} reach the session agent at a wss:// address`,
  )
}

/** A setting that only this sandbox provider needs. */
const needed = (value: string | undefined, variable: string, provider: string): string => {
  if (value !== undefined) return value
  throw new SettingsError(`${variable} is missing: the sandbox provider ${provider} needs it`)
}

/** `modelUrls`: the model endpoints in use. */
export const providerMakers = (
  settings: Settings,
  log: Log,
  modelUrls: readonly string[] = [],
): ProviderMakers => {
  const { sandboxImage: image } = settings
  const idleBufferMs = settings.sandboxIdleBufferSeconds * 1000
  return {
    local: () => createLocalSandboxes(settings, modelUrls, log),
    docker: async () => {
      const { dockerSocket: socket, dockerNetwork: network } = settings
      if (network === "host" && settings.egress === "allow-list")
        throw new SettingsError(
          "SANDBOX_EGRESS=allow-list does not work with DOCKER_NETWORK=host: the packet filter of a sandbox would be that of this machine. Set DOCKER_NETWORK to a network of the sandboxes' own",
        )
      const hubUrl =
        network === "host"
          ? settings.sandboxHubUrl
          : hubUrlFor(settings, "containers (except with DOCKER_NETWORK=host)")
      const { createDockerProvider } = await import("../fleet/providers/docker.ts")
      const provider = createDockerProvider({ socket, network, clock: systemClock })
      return elsewhere(provider, { image, hubUrl })
    },
    modal: async () => {
      const options = {
        tokenId: needed(settings.modalTokenId, "MODAL_TOKEN_ID", "modal"),
        tokenSecret: needed(settings.modalTokenSecret, "MODAL_TOKEN_SECRET", "modal"),
        app: settings.modalApp,
        environment: settings.modalEnvironment,
        idleBufferMs,
      }
      const hubUrl = hubUrlFor(settings, "sandboxes at Modal")
      const { createModalProvider } = await import("../fleet/providers/modal.ts")
      return elsewhere(createModalProvider({ ...options, clock: systemClock, log }), {
        image,
        hubUrl,
      })
    },
    e2b: async () => {
      const apiKey = needed(settings.e2bApiKey, "E2B_API_KEY", "e2b")
      const { e2bDomain: domain, e2bSandboxUrl: sandboxUrl } = settings
      const apiUrl = settings.e2bApiUrl ?? `https://api.${domain}`
      const hubUrl = hubUrlFor(settings, "sandboxes at E2B")
      const { createE2bProvider } = await import("../fleet/providers/e2b.ts")
      const options = { apiKey, apiUrl, domain, sandboxUrl, idleBufferMs, clock: systemClock }
      return elsewhere(createE2bProvider(options), { image, hubUrl })
    },
    daytona: async () => {
      const apiKey = needed(settings.daytonaApiKey, "DAYTONA_API_KEY", "daytona")
      const { daytonaApiUrl, daytonaTarget: target } = settings
      const hubUrl = hubUrlFor(settings, "sandboxes at Daytona")
      const { createDaytonaProvider } = await import("../fleet/providers/daytona.ts")
      const apiUrl = daytonaApiUrl.replace(/\/$/, "")
      const options = { apiKey, apiUrl, target, idleBufferMs, clock: systemClock }
      return elsewhere(createDaytonaProvider(options), { image, hubUrl })
    },
    kubernetes: async () => {
      const { kubernetesUrl: url } = settings
      if (url === undefined)
        throw new SettingsError("KUBERNETES_URL is missing: the address of the Kubernetes API")
      const hubUrl = hubUrlFor(settings, "pods")
      const { createKubernetesProvider } = await import("../fleet/providers/kubernetes.ts")
      const provider = createKubernetesProvider({
        url: url.replace(/\/+$/, ""),
        namespace: settings.kubernetesNamespace,
        tokenFile: settings.kubernetesTokenFile,
        caFile: settings.kubernetesCaFile,
        volumeSize: settings.kubernetesVolumeSize,
        warmPool: settings.kubernetesWarmPool,
        snapshotClass: settings.kubernetesSnapshotClass,
        image,
        digest: digestOf,
        clock: systemClock,
      })
      return elsewhere(provider, { image, hubUrl })
    },
    noop: () => createNoopProvider(Date.now),
  }
}
