/** Pods as sandboxes, against a double of the Kubernetes API. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import type { SandboxProvider } from "../../../src/fleet/providers/contract.ts"
import { exitCodeOf } from "../../../src/fleet/providers/kubernetes-exec.ts"
import { labelValue, volumeClaimName } from "../../../src/fleet/providers/kubernetes-objects.ts"
import { digestOf } from "../../../src/lib/digest.ts"
import {
  KUBERNETES_TOKEN,
  type KubernetesDouble,
  startKubernetesDouble,
} from "../kit/kubernetes-double.ts"
import { kubernetesProviderOn, kubernetesSubjectOn } from "../kit/kubernetes-subject.ts"
import {
  type ContractSubject,
  contractSpec,
  describeProvider,
  limit,
  listOf,
  startSandbox,
  untilState,
} from "../provider-contract.ts"

const SECRET = "token-of-the-runner-0123456789"

describeProvider({
  name: "kubernetes with a double of its API",
  can: {
    supportsPause: true,
    supportsAutoPause: false,
    snapshot: "none",
    supportsMemorySnapshot: false,
    volumes: true,
    uniqueNames: true,
    limits: ["cpu", "memoryMiB"],
    exec: true,
    startsRunner: true,
    maxLifeMs: undefined,
    snapshotLifeMs: undefined,
  },
  hasDisk: true,
  hasFaults: true,
  setup: async () => kubernetesSubjectOn(await startKubernetesDouble()),
})

describe("a sandbox of the provider kubernetes", () => {
  let double: KubernetesDouble
  let subject: ContractSubject
  let provider: SandboxProvider
  beforeAll(async () => {
    double = await startKubernetesDouble()
    subject = kubernetesSubjectOn(double)
    provider = subject.provider
  })
  afterAll(() => double.stop())
  const shell = (ref: string, script: string) =>
    provider.exec(ref, { argv: ["sh", "-c", script] }, limit())

  test("the secrets of a sandbox are in its Secret and not in its Pod", async () => {
    const ref = await startSandbox(subject, "secrets", { environment: { RUNNER_TOKEN: SECRET } })
    const pod = JSON.stringify(double.objects.get(`pods/${ref}`)?.manifest)
    expect(pod).not.toContain(SECRET)
    expect(pod).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 20))
    expect(await shell(ref, 'printf "%s" "$RUNNER_TOKEN"')).toMatchObject({
      value: { stdout: SECRET },
    })
  })

  test("the Pod of a sandbox has no token of the cluster and no rights of its own", async () => {
    const ref = await startSandbox(subject, "rights", {
      resources: { cpu: 1.5, memoryMiB: 512 },
    })
    expect(double.objects.get(`pods/${ref}`)?.manifest.spec).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      containers: [
        {
          image: "sandpiper:test",
          resources: { limits: { cpu: "1.5", memory: "512Mi" } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { add: [] } },
        },
      ],
    })
  })

  test("a pause deletes the Pod and keeps the files, which a resume brings back", async () => {
    const ref = await startSandbox(subject, "files")
    await shell(ref, "printf kept > work.txt")
    await provider.pause(ref)
    expect(double.objects.has(`pods/${ref}`)).toBe(false)
    expect(await provider.look(ref)).toMatchObject({ value: { state: "paused" } })
    expect(await provider.address(ref, 9000)).toMatchObject({ is: "refused" })
    expect((await shell(ref, "true")).is).toBe("unknown")
    await provider.resume(ref, contractSpec(subject, "files"))
    await untilState(provider, ref, "running")
    expect(await shell(ref, "cat work.txt")).toMatchObject({ value: { stdout: "kept" } })
  })

  test("the end of a sandbox leaves no object behind", async () => {
    const ref = await startSandbox(subject, "end", {
      volumes: [{ name: "workspace-end", path: "/data" }],
    })
    await provider.terminate(ref)
    const left = [...double.objects.keys()].filter((key) => key.includes("sp-end"))
    expect(left).toEqual([])
    expect(double.objects.has("persistentvolumeclaims/workspace-end")).toBe(true)
    await provider.removeVolume("workspace-end")
    expect(double.objects.has("persistentvolumeclaims/workspace-end")).toBe(false)
  })

  test("a create that was cut is listed as paused, and a resume finishes it", async () => {
    double.server.faults.set("cut-before", 1)
    const made = await provider.create(contractSpec(subject, "half"), limit())
    double.server.faults.clear()
    expect(made).toMatchObject({ is: "unknown" })
    expect(await listOf(provider, "half")).toMatchObject([{ ref: "sp-half-1", state: "paused" }])
    expect(await provider.resume("sp-half-1", contractSpec(subject, "half"))).toMatchObject({
      is: "ok",
    })
    await untilState(provider, "sp-half-1", "running")
  })

  test("a resume while the former Pod is being deleted is in doubt and is tried again soon", async () => {
    const ref = await startSandbox(subject, "deleting")
    const pod = double.objects.get(`pods/${ref}`)
    if (pod) pod.isDeleting = true
    expect(await provider.look(ref)).toMatchObject({ value: { state: "paused" } })
    const again = contractSpec(subject, "deleting")
    expect(await provider.resume(ref, again)).toMatchObject({ is: "unknown", afterMs: 2000 })
    expect(await provider.resume(ref, again)).toMatchObject({ is: "ok" })
  })

  test("a Pod that was evicted is a stopped sandbox, and a resume replaces it", async () => {
    const ref = await startSandbox(subject, "evicted")
    const pod = double.objects.get(`pods/${ref}`)
    if (pod) pod.phase = "Failed"
    expect(await provider.look(ref)).toMatchObject({ value: { state: "stopped" } })
    const again = contractSpec(subject, "evicted")
    expect(await provider.resume(ref, again)).toMatchObject({ is: "unknown" })
    expect(await provider.resume(ref, again)).toMatchObject({ is: "ok" })
    await untilState(provider, ref, "running")
  })

  test("a Pod that waits for its node is a sandbox that starts", async () => {
    const ref = await startSandbox(subject, "pending")
    const pod = double.objects.get(`pods/${ref}`)
    if (pod) pod.phase = "Pending"
    expect(await provider.look(ref)).toMatchObject({ value: { state: "starting" } })
  })

  test("sessions with any text as their id are found exactly", async () => {
    const session = "orchestrator:ä/1:x"
    const name = "sp-odd-1"
    const labels = { deployment: "contract", tenant: "t", session, generation: "1" }
    const spec = { ...contractSpec(subject, "odd"), session, name, labels }
    expect(await provider.create(spec, limit())).toMatchObject({ is: "ok" })
    expect(await listOf(provider, session)).toMatchObject([{ ref: name, session }])
  })

  test("limits of processes, commands with variables and snapshots are refused", async () => {
    const spec = contractSpec(subject, "refused", { resources: { pids: 10 } })
    expect(await provider.create(spec, limit())).toMatchObject({ is: "refused" })
    const ref = await startSandbox(subject, "variables")
    const command = { argv: ["true"], environment: { A: "b" } }
    expect(await provider.exec(ref, command, limit())).toMatchObject({ is: "refused" })
    expect((await shell(ref, "true")).is).toBe("ok")
    const inside = await provider.exec(ref, { argv: ["pwd"], cwd: "/" }, limit())
    expect(inside).toMatchObject({ value: { stdout: "/\n" } })
  })

  test("a snapshot of a session is refused and not missing if this fleet has no class of snapshots", async () => {
    const image = { kind: "snapshot", id: "saved-with-a-class" } as const
    const made = await provider.create(contractSpec(subject, "saved", { image }), limit())
    expect(made).toMatchObject({
      is: "refused",
      why: expect.stringContaining("KUBERNETES_SNAPSHOT_CLASS"),
    })
  })

  test("a namespace that does not exist is refused by its name", async () => {
    const other = kubernetesProviderOn(double, { namespace: "elsewhere" })
    const why = "the namespace elsewhere does not exist"
    expect(await other.create(contractSpec(subject, "ns"), limit())).toEqual({ is: "refused", why })
    expect(await other.health()).toEqual({ is: "refused", why })
  })

  test("a token that was renewed is used without a restart, and a refused one is in doubt", async () => {
    writeFileSync(double.tokenFile, "another-token-that-is-not-valid\n")
    const refused = await provider.health()
    expect(refused).toMatchObject({ is: "unknown" })
    expect(JSON.stringify(refused)).not.toContain("another-token")
    writeFileSync(double.tokenFile, `${KUBERNETES_TOKEN}\n`)
    expect(await provider.health()).toMatchObject({ is: "ok" })
  })
})

describe("names and answers of Kubernetes", () => {
  test("a text that a label cannot hold is replaced by its digest", () => {
    expect(labelValue("abc-1", digestOf)).toBe("abc-1")
    expect(labelValue("a:b", digestOf)).toMatch(/^digest-[0-9a-f]{40}$/)
    expect(labelValue("x".repeat(64), digestOf)).toMatch(/^digest-/)
    expect(volumeClaimName("workspace-A", digestOf)).toMatch(/^volume-[0-9a-f]{40}$/)
  })

  test("the exit code of a command is read from the last message, and every other text is in doubt", () => {
    expect(exitCodeOf('{"status":"Success"}')).toBe(0)
    expect(exitCodeOf("")).toBeUndefined()
    expect(exitCodeOf('{"status":"Failure","message":"no such container"}')).toBeUndefined()
  })
})
