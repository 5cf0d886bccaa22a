/** The sandbox providers of `serve`, each made from its settings and loaded when it is chosen. */
import type { ProviderMakers } from "../fleet/providers/choose.ts"
import { elsewhere } from "../fleet/providers/elsewhere.ts"
import { createNoopProvider } from "../fleet/providers/noop.ts"
import { systemClock } from "../lib/clock.ts"
import { digestOf } from "../lib/digest.ts"
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

/** `modelUrls`: the model endpoints in use. */
export const providerMakers = (
  settings: Settings,
  modelUrls: readonly string[] = [],
): ProviderMakers => {
  const { sandboxImage: image } = settings
  return {
    local: () => createLocalSandboxes(settings, modelUrls),
    docker: async () => {
      const { dockerSocket: socket, dockerNetwork: network } = settings
      const hubUrl =
        network === "host"
          ? settings.sandboxHubUrl
          : hubUrlFor(settings, "containers (except with DOCKER_NETWORK=host)")
      const { createDockerProvider } = await import("../fleet/providers/docker.ts")
      const provider = createDockerProvider({ socket, network, clock: systemClock })
      return elsewhere(provider, { image, hubUrl })
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
        digest: digestOf,
        clock: systemClock,
      })
      return elsewhere(provider, { image, hubUrl })
    },
    noop: () => createNoopProvider(Date.now),
  }
}
