/** The provider kubernetes on a double of its API, and what the contract suite needs of it. */
import {
  createKubernetesProvider,
  type KubernetesProviderOptions,
} from "../../../src/fleet/providers/kubernetes.ts"
import { digestOf } from "../../../src/lib/digest.ts"
import type { ContractSubject } from "../provider-contract.ts"
import type { KubernetesDouble } from "./kubernetes-double.ts"

export const kubernetesProviderOn = (
  double: KubernetesDouble,
  change: Partial<KubernetesProviderOptions> = {},
) =>
  createKubernetesProvider({
    url: double.url,
    namespace: double.namespace,
    tokenFile: double.tokenFile,
    caFile: "/nonexistent/ca.crt",
    volumeSize: "1Gi",
    image: "sandpiper:test",
    digest: digestOf,
    clock: double.clock,
    // With a fault, the end of a command gets no answer either.
    killMs: 20,
    ...change,
  })

/** `change`: settings of the provider besides the usual ones. */
export const kubernetesSubjectOn = (
  double: KubernetesDouble,
  change: Partial<KubernetesProviderOptions> = {},
): ContractSubject => ({
  provider: kubernetesProviderOn(double, change),
  image: { kind: "image", id: "sandpiper:test" },
  missingRef: "sp-none-1",
  missingSnapshot: "none",
  readsSnapshotFirst: true,
  writes: double.server.writes,
  faults: double.server.faults,
  stop: double.stop,
})
