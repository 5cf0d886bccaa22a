/** Settings of `serve` for sandboxes that have an image of their own: where they run and how they reach the hub. */
import { z } from "zod"
import { endpointUrl, file, someText, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

/** Kubernetes' form of a name, of which dots are a part. */
const objectName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, "must be the name of an object of Kubernetes")

export const sandboxProviderSettings = {
  sandboxImage: {
    env: "SANDBOX_IMAGE",
    reaches: [],
    doc: "the image of sandboxes that have one, such as those of docker and kubernetes",
    schema: someText,
    fallback: () => "sandpiper",
  },
  imageBuildVersion: {
    env: "IMAGE_BUILD_VERSION",
    reaches: [],
    doc: "the build of SANDBOX_IMAGE: after another one the warm pool and base snapshots of before are not used; in the image it is set",
    schema: someText.optional(),
  },
  sandboxHubUrl: {
    env: "SANDBOX_HUB_URL",
    reaches: [],
    doc: "the wss:// address at which sandboxes on other machines reach the session agent of `serve`",
    schema: urlWith(
      "must be a wss:// URL without a path, such as wss://hub.example.com",
      ({ protocol, pathname, search }) => protocol === "wss:" && pathname === "/" && search === "",
    ).optional(),
  },
  dockerSocket: {
    env: "DOCKER_SOCKET",
    reaches: [],
    doc: "the unix socket of Docker or Podman",
    schema: file,
    fallback: () => "/var/run/docker.sock",
  },
  dockerNetwork: {
    env: "DOCKER_NETWORK",
    reaches: [],
    doc: "the network of docker's sandboxes: bridge, host (they share this machine's), or one that exists",
    schema: z.string().regex(/^[A-Za-z0-9][\w.-]*$/, "must be the name of a network"),
    fallback: () => "bridge",
  },
  kubernetesUrl: {
    env: "KUBERNETES_URL",
    reaches: [],
    doc: "the address of the Kubernetes API; in a cluster it is found",
    schema: endpointUrl.optional(),
    fallback: ({ env }) => {
      const host = env["KUBERNETES_SERVICE_HOST"]
      if (host === undefined) return ""
      const name = host.includes(":") ? `[${host}]` : host
      return `https://${name}:${env["KUBERNETES_SERVICE_PORT"] ?? "443"}`
    },
  },
  kubernetesNamespace: {
    env: "KUBERNETES_NAMESPACE",
    reaches: [],
    doc: "the namespace of the sandboxes",
    schema: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "must be a namespace's name"),
    fallback: () => "default",
  },
  kubernetesTokenFile: {
    env: "KUBERNETES_TOKEN_FILE",
    reaches: [],
    doc: "the file with the token of the service account; it is read again when it changes",
    schema: file,
    fallback: () => `${SERVICE_ACCOUNT}/token`,
  },
  kubernetesCaFile: {
    env: "KUBERNETES_CA_FILE",
    reaches: [],
    doc: "the certificate that signs the Kubernetes API's certificate; not used if the file does not exist",
    schema: file,
    fallback: () => `${SERVICE_ACCOUNT}/ca.crt`,
  },
  kubernetesVolumeSize: {
    env: "KUBERNETES_VOLUME_SIZE",
    reaches: [],
    doc: "the size of each sandbox's volume in Kubernetes",
    schema: z.string().regex(/^\d+(Mi|Gi|Ti)$/, "must be a size such as 10Gi"),
    fallback: () => "10Gi",
  },
  kubernetesWarmPool: {
    env: "KUBERNETES_WARM_POOL",
    reaches: [],
    doc: "the SandboxWarmPool of the agent-sandbox controller from which sandboxes are taken; without it they are plain pods",
    schema: objectName.optional(),
  },
  kubernetesSnapshotClass: {
    env: "KUBERNETES_SNAPSHOT_CLASS",
    reaches: [],
    doc: "the VolumeSnapshotClass of snapshots; without it, and with a warm pool, there are none",
    schema: objectName.optional(),
  },
  redisUrl: {
    env: "REDIS_URL",
    reaches: [],
    doc: "Redis in which `serve` publishes the sandbox of each session for other programs",
    // `serve` checks its form: another program's variable of this name must not stop the other commands.
    schema: someText.optional(),
    secret: true,
  },
} satisfies SettingGroup
