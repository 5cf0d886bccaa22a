/** The double of Kubernetes is right about the API if Kubernetes' own client works with it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { PassThrough, Writable } from "node:stream"
import {
  CoreV1Api,
  CustomObjectsApi,
  Exec,
  KubeConfig,
  PatchStrategy,
  setHeaderOptions,
} from "@kubernetes/client-node"
import { createKubernetesProvider } from "../../../src/fleet/providers/kubernetes.ts"
import { digestOf } from "../../../src/lib/digest.ts"
import {
  KUBERNETES_TOKEN,
  type KubernetesDouble,
  startKubernetesDouble,
} from "../kit/kubernetes-double.ts"
import { SNAPSHOT_CLASS, WARM_POOL } from "../kit/kubernetes-objects.ts"
import { schemaProblem } from "../../kit/kubernetes-schema.ts"
import { type ContractSubject, contractSpec, limit, valueOf } from "../provider-contract.ts"

let double: KubernetesDouble
let config: KubeConfig
let core: CoreV1Api
let custom: CustomObjectsApi
let namespace: string
beforeAll(async () => {
  double = await startKubernetesDouble()
  namespace = double.namespace
  config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: "double", server: double.url, skipTLSVerify: true },
    { name: "serve", token: KUBERNETES_TOKEN },
  )
  core = config.makeApiClient(CoreV1Api)
  custom = config.makeApiClient(CustomObjectsApi)
})
afterAll(() => double.stop())

const claims = { group: "extensions.agents.x-k8s.io", version: "v1beta1", plural: "sandboxclaims" }
const sandboxes = { group: "agents.x-k8s.io", version: "v1beta1", plural: "sandboxes" }
const snapshots = { group: "snapshot.storage.k8s.io", version: "v1", plural: "volumesnapshots" }

const providerWith = (change: object) =>
  createKubernetesProvider({
    url: double.url,
    namespace,
    tokenFile: double.tokenFile,
    caFile: "/nonexistent/ca.crt",
    volumeSize: "1Gi",
    image: "sandpiper:test",
    digest: digestOf,
    clock: double.clock,
    ...change,
  })
const subject = { image: { kind: "image", id: "sandpiper:test" } } as ContractSubject

/** Method and path of what both have asked, without names. */
const kindsOf = (asked: readonly string[]): readonly string[] => [
  ...new Set(asked.map((one) => one.replace(/(namespaces\/[^/]+\/[a-z]+)\/[^/]+/, "$1/NAME"))),
]

test("the client makes, reads, lists and deletes Secrets, volume claims and Pods, and runs a command in one", async () => {
  const data = { environment: btoa("A=1\n"), manifest: btoa("{}") }
  const metadata = { name: "sp-client-1", labels: { "sandpiper/session": "client" } }
  const secret = await core.createNamespacedSecret({ namespace, body: { metadata, data } })
  expect(secret.metadata?.uid).toStartWith("uid-")
  const taken = await core
    .createNamespacedSecret({ namespace, body: { metadata, data } })
    .catch((error: unknown) => error)
  expect(taken).toMatchObject({ code: 409 })
  await core.createNamespacedPersistentVolumeClaim({
    namespace,
    body: {
      metadata: { name: "sp-client-1-files" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    },
  })
  const files = { name: "files", persistentVolumeClaim: { claimName: "sp-client-1-files" } }
  const container = {
    name: "sandbox",
    image: "sandpiper:test",
    volumeMounts: [{ name: "files", mountPath: "/workspace" }],
  }
  await core.createNamespacedPod({
    namespace,
    body: { metadata, spec: { volumes: [files], containers: [container] } },
  })
  const pod = await core.readNamespacedPod({ namespace, name: "sp-client-1" })
  expect(pod.status).toMatchObject({ phase: "Running", podIP: "10.1.2.3" })
  const labelSelector = "sandpiper/session=client"
  const listed = await core.listNamespacedSecret({ namespace, labelSelector, limit: 500 })
  expect(listed.items.map((one) => one.metadata?.name)).toEqual(["sp-client-1"])

  const output: string[] = []
  const stdout = new Writable({
    write: (bytes, _encoding, done) => {
      output.push(String(bytes))
      done()
    },
  })
  const input = new PassThrough()
  const status = await new Promise((resolve, reject) => {
    new Exec(config)
      .exec(
        namespace,
        "sp-client-1",
        "sandbox",
        ["head", "-c", "5"],
        stdout,
        new PassThrough(),
        input,
        false,
        resolve,
      )
      .catch(reject)
    input.write("hello, and more")
  })
  expect(status).toMatchObject({ status: "Success" })
  expect(output.join("")).toBe("hello")
  await core.deleteNamespacedPod({ namespace, name: "sp-client-1" })
  await core.deleteNamespacedPersistentVolumeClaim({ namespace, name: "sp-client-1-files" })
  await core.deleteNamespacedSecret({ namespace, name: "sp-client-1" })
  const gone = await core
    .readNamespacedSecret({ namespace, name: "sp-client-1" })
    .catch((error: unknown) => error)
  expect(gone).toMatchObject({ code: 404 })
})

test("the client claims, suspends and ends a sandbox of the pool, and takes a snapshot, by the paths that the provider uses", async () => {
  const from = double.asked.length
  const metadata = { name: "sp-claimed-1" }
  const labels = { "sandpiper/sandbox": "sp-claimed-1" }
  const spec = { warmPoolRef: { name: WARM_POOL }, additionalPodMetadata: { labels } }
  await custom.createNamespacedCustomObject({ ...claims, namespace, body: { metadata, spec } })
  const claim = (await custom.getNamespacedCustomObject({
    ...claims,
    namespace,
    name: "sp-claimed-1",
  })) as { readonly status: { readonly sandbox: { readonly name: string } } }
  const { name } = claim.status.sandbox
  const suspend = () =>
    custom.patchNamespacedCustomObject(
      { ...sandboxes, namespace, name, body: { spec: { operatingMode: "Suspended" } } },
      setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
    )
  const pods = () => core.listNamespacedPod({ namespace, labelSelector: "sandpiper/sandbox" })
  expect(double.objects.has(`pods/${name}`)).toBe(true)
  expect(await suspend()).toMatchObject({ spec: { operatingMode: "Suspended" } })
  expect(double.objects.has(`pods/${name}`)).toBe(false)
  await pods()
  await custom.deleteNamespacedCustomObject({ ...claims, namespace, name: "sp-claimed-1" })
  expect(double.objects.has(`sandboxes/${name}`)).toBe(false)
  const snapshot = {
    metadata: { name: "snapshot-1" },
    spec: {
      volumeSnapshotClassName: SNAPSHOT_CLASS,
      source: { persistentVolumeClaimName: "absent" },
    },
  }
  await custom.createNamespacedCustomObject({ ...snapshots, namespace, body: snapshot })
  await custom.getNamespacedCustomObject({ ...snapshots, namespace, name: "snapshot-1" })
  await custom.deleteNamespacedCustomObject({ ...snapshots, namespace, name: "snapshot-1" })
  const byClient = kindsOf(double.asked.slice(from))

  const before = double.asked.length
  const claiming = providerWith({ warmPool: WARM_POOL })
  valueOf(await claiming.create(contractSpec(subject, "same"), limit()))
  valueOf(await claiming.pause("sp-same-1"))
  valueOf(await claiming.terminate("sp-same-1"))
  const saving = providerWith({ snapshotClass: SNAPSHOT_CLASS })
  valueOf(await saving.create(contractSpec(subject, "saved"), limit()))
  const { id } = valueOf(await saving.snapshot("sp-saved-1", "disk", limit()))
  valueOf(await saving.removeSnapshot(id))
  const isCustom = (one: string) => one.includes("/apis/")
  const byProvider = kindsOf(double.asked.slice(before)).filter(isCustom)
  expect(byProvider.toSorted()).toEqual(byClient.filter(isCustom).toSorted())
})

test("every object that the provider makes is valid by the schema of Kubernetes", async () => {
  const provider = providerWith({})
  const volumes = [{ name: "workspace-valid", path: "/data", readOnly: true }] as const
  const resources = { cpu: 0.5, memoryMiB: 512 }
  const environment = { SANDBOX_EGRESS: "allow-list" }
  const spec = contractSpec(subject, "valid", { volumes, resources, environment })
  valueOf(await provider.create(spec, limit()))
  const made = [...double.objects].filter(([key]) => key.includes("valid"))
  expect(made.map(([key]) => key.replace(/\/.*/, "")).toSorted()).toEqual([
    "persistentvolumeclaims",
    "persistentvolumeclaims",
    "pods",
    "secrets",
  ])
  for (const [, { manifest }] of made) expect(await schemaProblem(manifest)).toBeUndefined()
})
