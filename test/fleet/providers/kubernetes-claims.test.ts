/** SandboxClaims of agent-sandbox and snapshots of volumes, against a double of the Kubernetes API. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { SandboxProvider } from "../../../src/fleet/providers/contract.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { type KubernetesDouble, startKubernetesDouble } from "../kit/kubernetes-double.ts"
import { kubernetesProviderOn, kubernetesSubjectOn } from "../kit/kubernetes-subject.ts"
import { SNAPSHOT_CLASS, WARM_POOL } from "../kit/kubernetes-objects.ts"
import {
  type ContractSubject,
  contractSpec,
  describeProvider,
  limit,
  listOf,
  startSandbox,
  untilState,
  valueOf,
} from "../provider-contract.ts"
import { untilTrue } from "../../kit/until-true.ts"

const SECRET = "token-of-the-runner-0123456789"

const common = {
  supportsPause: true,
  supportsAutoPause: false,
  supportsMemorySnapshot: false,
  uniqueNames: true,
  exec: true,
  startsRunner: true,
  maxLifeMs: undefined,
  snapshotLifeMs: undefined,
} as const

describeProvider({
  name: "kubernetes with claims of a warm pool",
  can: { ...common, snapshot: "none", volumes: false, limits: [] },
  hasDisk: true,
  hasFaults: true,
  setup: async () => kubernetesSubjectOn(await startKubernetesDouble(), { warmPool: WARM_POOL }),
})

describeProvider({
  name: "kubernetes with snapshots of volumes",
  can: { ...common, snapshot: "copy", volumes: true, limits: ["cpu", "memoryMiB"] },
  hasDisk: true,
  hasFaults: true,
  setup: async () =>
    kubernetesSubjectOn(await startKubernetesDouble(), { snapshotClass: SNAPSHOT_CLASS }),
})

describe("a SandboxClaim", () => {
  let double: KubernetesDouble
  let subject: ContractSubject
  let provider: SandboxProvider
  beforeAll(async () => {
    double = await startKubernetesDouble()
    subject = kubernetesSubjectOn(double, { warmPool: WARM_POOL })
    provider = subject.provider
  })
  afterAll(() => double.stop())
  const shell = (ref: string, script: string) =>
    provider.exec(ref, { argv: ["sh", "-c", script] }, limit())
  const podOf = (ref: string) =>
    [...double.objects].find(
      ([key, { manifest }]) =>
        key.startsWith("pods/") && manifest.metadata.labels?.["sandpiper/sandbox"] === ref,
    )?.[1]

  test("the environment is delivered to the pod of the pool and is in no object but the Secret", async () => {
    const environment = { RUNNER_TOKEN: SECRET, SESSION_ID: "secret" }
    const ref = await startSandbox(subject, "secret", { environment })
    expect(await shell(ref, 'printf "%s" "$RUNNER_TOKEN"')).toMatchObject({
      value: { stdout: SECRET },
    })
    const others = [...double.objects].filter(([key]) => !key.startsWith("secrets/"))
    expect(others.map(([key]) => key)).toContain(`sandboxclaims/${ref}`)
    expect(JSON.stringify(others)).not.toContain(SECRET)
    expect(JSON.stringify(double.asked)).not.toContain(SECRET)
  })

  test("a pause suspends the Sandbox, and a resume gives the new pod its environment again", async () => {
    const ref = await startSandbox(subject, "pause")
    await shell(ref, "printf kept > work.txt")
    const before = podOf(ref)?.uid
    valueOf(await provider.pause(ref))
    expect(podOf(ref)).toBeUndefined()
    expect(await provider.look(ref)).toMatchObject({ value: { state: "paused" } })
    valueOf(await provider.resume(ref, contractSpec(subject, "pause")))
    expect(podOf(ref)?.uid).not.toBe(before)
    const read = await shell(ref, 'cat work.txt; printf " %s" "$SESSION_ID"')
    expect(read).toMatchObject({ value: { stdout: "kept pause" } })
  })

  test("a create that was cut before its environment was written is a stopped sandbox, and a resume finishes it", async () => {
    // Secret, claim, status of the claim, the Sandbox, its pod: then the command.
    double.server.faults.set("cut-before", 5)
    const made = await provider.create(contractSpec(subject, "half"), limit())
    double.server.faults.clear()
    expect(made).toMatchObject({ is: "unknown" })
    expect(await listOf(provider, "half")).toMatchObject([{ ref: "sp-half-1", state: "stopped" }])
    valueOf(await provider.resume("sp-half-1", contractSpec(subject, "half")))
    await untilState(provider, "sp-half-1", "running")
    expect(await shell("sp-half-1", 'printf "%s" "$SESSION_ID"')).toMatchObject({
      value: { stdout: "half" },
    })
  })

  test("a claim that gets no sandbox is in doubt and names the pool, and the end removes it", async () => {
    const other = kubernetesProviderOn(double, { warmPool: "absent", clock: systemClock })
    const controller = new AbortController()
    const making = other.create(contractSpec(subject, "unbound"), controller.signal)
    const asksAgain = () =>
      double.asked.filter((one) => one.endsWith("/sandboxclaims/sp-unbound-1")).length >= 2
    await untilTrue(asksAgain, "second question about the claim")
    controller.abort()
    expect(await making).toMatchObject({ is: "unknown" })
    expect(await listOf(other, "unbound")).toMatchObject([{ state: "paused" }])
    valueOf(await other.terminate("sp-unbound-1"))
    expect([...double.objects.keys()].filter((key) => key.includes("unbound"))).toEqual([])
  })

  test("the end of a sandbox leaves no object behind", async () => {
    const ref = await startSandbox(subject, "end")
    const before = double.objects.size
    valueOf(await provider.terminate(ref))
    // Secret, claim, Sandbox, volume and pod.
    expect(double.objects.size).toBe(before - 5)
    expect(podOf(ref)).toBeUndefined()
  })

  test("a sandbox that was made as a plain pod is not resumed as a claim", async () => {
    const plain = kubernetesProviderOn(double, {})
    valueOf(await plain.create(contractSpec(subject, "plain"), limit()))
    const resumed = await provider.resume("sp-plain-1", contractSpec(subject, "plain"))
    expect(resumed).toMatchObject({ is: "refused" })
    valueOf(await plain.terminate("sp-plain-1"))
  })
})
