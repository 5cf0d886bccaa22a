/** Sandboxes of Daytona: the contract against a double that Daytona's SDK has validated, and what is special about it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { createDaytonaProvider } from "../../../src/fleet/providers/daytona.ts"
import { publicGateway } from "../../../src/fleet/providers/public-gateway.ts"
import { CLOUD_IMAGE } from "../kit/cloud.ts"
import { DAYTONA_KEY, type DaytonaDouble, startDaytonaDouble } from "../kit/daytona-double.ts"
import { describeProvider } from "../provider-contract.ts"

const providerOf = (double: DaytonaDouble, apiKey = DAYTONA_KEY) =>
  createDaytonaProvider({
    apiKey,
    apiUrl: double.apiUrl,
    target: "eu",
    idleBufferMs: 1_800_000,
    clock: double.clock,
  })

describeProvider({
  name: "daytona",
  can: {
    supportsPause: true,
    supportsAutoPause: true,
    snapshot: "copy",
    supportsMemorySnapshot: false,
    volumes: true,
    uniqueNames: true,
    limits: [],
    exec: true,
    startsRunner: true,
    maxLifeMs: undefined,
    snapshotLifeMs: undefined,
    pausedLifeMs: 2 * 86_400_000,
  },
  hasDisk: true,
  hasFaults: true,
  setup: async () => {
    const double = await startDaytonaDouble()
    return {
      provider: providerOf(double),
      image: { kind: "image", id: CLOUD_IMAGE },
      missingRef: "00000000-0000-4000-8000-999999999999",
      missingSnapshot: "sp-none",
      writes: () => double.calls.filter(({ method }) => method !== "GET").length,
      faults: double.faults,
      stop: double.stop,
    }
  },
})

const spec = (session: string): SandboxSpec => ({
  session,
  generation: 1,
  name: `sp-${session}-1`,
  labels: { deployment: "d", tenant: "t", session, generation: "1" },
  image: { kind: "image", id: CLOUD_IMAGE },
  environment: { RUNNER_TOKEN: "token-of-the-runner" },
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 900_000,
  lifeMs: 86_400_000,
})
const limit = () => AbortSignal.timeout(60_000)

describe("sandboxes of Daytona", () => {
  let double: DaytonaDouble
  beforeAll(async () => {
    double = await startDaytonaDouble()
  })
  afterAll(() => double.stop())
  const create = async (session: string) => {
    const made = await providerOf(double).create(spec(session), limit())
    if (made.is !== "ok") throw new Error(JSON.stringify(made))
    return made.value.ref
  }

  test("a create names the region, the ports of Daytona in the sandbox and the intervals after which Daytona acts by itself", async () => {
    await create("fields")
    const call = double.calls.findLast(
      ({ method, path }) => `${method} ${path}` === "POST /api/sandbox",
    )
    expect(call?.json).toMatchObject({
      name: "sp-fields-1",
      target: "eu",
      public: false,
      env: { RUNNER_TOKEN: "token-of-the-runner", SANDBOX_CLOSED_PORTS: "2280,22222,33333" },
      autoStopInterval: 45,
      autoArchiveInterval: 60,
      autoDeleteInterval: 2880,
    })
  })

  test("a sandbox that ends in an error at its start is refused with Daytona's reason and removed", async () => {
    for (const state of ["error", "build_failed"] as const) {
      double.failNextCreate(state)
      const made = await providerOf(double).create(spec(`broken-${state}`), limit())
      expect(made).toMatchObject({ is: "refused" })
      expect(JSON.stringify(made)).toContain("out of disk")
    }
    expect([...double.cloud.boxes.values()].filter(({ name }) => name.includes("broken"))).toEqual(
      [],
    )
  })

  test("a sandbox that Daytona has stopped is seen as stopped, and a resume starts it under its ref", async () => {
    const ref = await create("stopped")
    const box = double.cloud.boxes.get(ref)
    if (box) box.state = "stopped"
    const provider = providerOf(double)
    expect(await provider.look(ref)).toMatchObject({ value: { state: "stopped" } })
    expect(await provider.exec(ref, { argv: ["true"] }, limit())).toMatchObject({ is: "unknown" })
    expect(await provider.pause(ref)).toMatchObject({ is: "ok" })
    expect(await provider.resume(ref, spec("stopped"))).toMatchObject({ is: "ok" })
    expect(await provider.look(ref)).toMatchObject({ value: { ref, state: "running" } })
  })

  test("a sandbox that Daytona cannot pause is stopped instead, and a resume starts it", async () => {
    const ref = await create("container")
    double.containers.add(ref)
    const provider = providerOf(double)
    expect(await provider.pause(ref)).toMatchObject({ is: "ok" })
    expect(await provider.look(ref)).toMatchObject({ value: { state: "stopped" } })
    expect(await provider.pause(ref)).toMatchObject({ is: "ok" })
    expect(await provider.resume(ref, spec("container"))).toMatchObject({ is: "ok" })
    expect(await provider.look(ref)).toMatchObject({ value: { state: "running" } })
  })

  test("an address is fresh on every call and has its token in a header", async () => {
    const ref = await create("address")
    const provider = providerOf(double)
    const [first, second] = [await provider.address(ref, 9000), await provider.address(ref, 9000)]
    expect(first).toMatchObject({ value: { url: `https://9000-${ref}.proxy.daytona.test` } })
    expect(first).not.toEqual(second)
  })

  test("an address for others needs no header and is valid for a day", async () => {
    const ref = await create("signed")
    const before = double.clock.now()
    const found = await publicGateway(providerOf(double), ref)
    expect(found).toMatchObject({
      is: "ok",
      value: expect.stringMatching(/^https:\/\/9000-\w{16}\./),
    })
    expect(JSON.stringify(found)).not.toContain(ref)
    const address = await providerOf(double).publicAddress?.(ref, 9000)
    if (address?.is !== "ok") throw new Error(JSON.stringify(address))
    expect(address.value.headers).toEqual({})
    expect(address.value.expiresAt).toBeGreaterThanOrEqual(before + 86_400_000)
    const unknown = await publicGateway(providerOf(double), "00000000-0000-4000-8000-999999999999")
    expect(unknown).toEqual({ is: "missing" })
  })

  test("arguments and output of a command arrive unchanged, also quotes, spaces and bytes at their ends", async () => {
    const ref = await create("quotes")
    const text = ` it's "quoted" $HOME \\\\ \`x\`\\n\\n`
    const command = { argv: ["printf", "%s", text] }
    const result = await providerOf(double).exec(ref, command, limit())
    expect(result).toEqual({ is: "ok", value: { exitCode: 0, stdout: text, stderr: "" } })
  })

  test("a read-only volume is refused, and an unknown image", async () => {
    const provider = providerOf(double)
    const volumes = [{ name: "models", path: "/models", readOnly: true }] as const
    const unknown = { ...spec("no"), image: { kind: "image", id: "none" } } as const
    expect(await provider.create({ ...spec("no"), volumes }, limit())).toMatchObject({
      is: "refused",
    })
    expect(await provider.create(unknown, limit())).toMatchObject({ is: "refused" })
  })

  test("a wrong key is refused, and no error contains a key or a value of the environment", async () => {
    const apiKey = `dtn_${"ab".repeat(32)}`
    const provider = providerOf(double, apiKey)
    const results = [await provider.create(spec("key"), limit()), await provider.health()]
    const listed = await Array.fromAsync(provider.list({ deployment: "d" })).then(
      () => "a list",
      (error: unknown) => String(error),
    )
    expect(results).toMatchObject([{ is: "refused" }, { is: "refused" }])
    for (const text of [...results.map((one) => JSON.stringify(one)), listed]) {
      expect(text).toContain("401")
      expect(text).not.toContain(apiKey)
      expect(text).not.toContain("token-of-the-runner")
    }
  })
})
