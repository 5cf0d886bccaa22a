/** Sandboxes of E2B: the contract against a double that E2B's SDK has validated, and what is special about E2B. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { Sandbox } from "e2b"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { createE2bProvider } from "../../../src/fleet/providers/e2b.ts"
import type { StoredSession } from "../../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../../src/fleet/store/sqlite-store.ts"
import { publicGateway } from "../../../src/fleet/providers/public-gateway.ts"
import { CLOUD_IMAGE } from "../kit/cloud.ts"
import { E2B_KEY, type E2bDouble, startE2bDouble } from "../kit/e2b-double.ts"
import { keeperOn } from "../kit/fleet.ts"
import { describeProvider, valueOf } from "../provider-contract.ts"
import { untilEqual, untilTrue } from "../../kit/until-true.ts"

const providerOf = (double: E2bDouble) =>
  createE2bProvider({
    apiKey: E2B_KEY,
    apiUrl: double.url,
    domain: "sandboxes.test",
    sandboxUrl: double.url,
    idleBufferMs: 1_800_000,
    clock: double.clock,
  })

describeProvider({
  name: "e2b",
  can: {
    supportsPause: true,
    supportsAutoPause: true,
    snapshot: "pause",
    supportsMemorySnapshot: false,
    volumes: true,
    uniqueNames: false,
    limits: [],
    exec: true,
    startsRunner: true,
    maxLifeMs: undefined,
    snapshotLifeMs: undefined,
  },
  hasDisk: true,
  hasFaults: true,
  setup: async () => {
    const double = await startE2bDouble()
    return {
      provider: providerOf(double),
      image: { kind: "image", id: CLOUD_IMAGE },
      missingRef: "i0none",
      missingSnapshot: "snap0none",
      writes: () => double.calls.filter(({ method }) => method !== "GET").length,
      faults: double.faults,
      stop: double.stop,
    }
  },
})

const spec: SandboxSpec = {
  session: "orchestrator:u1:77 & more",
  generation: 4,
  name: "sp-1-4",
  labels: { deployment: "d", tenant: "t", session: "orchestrator:u1:77 & more", generation: "4" },
  image: { kind: "image", id: CLOUD_IMAGE },
  environment: { RUNNER_TOKEN: "token-of-the-runner" },
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 900_000,
  lifeMs: 86_400_000,
}
const limit = () => AbortSignal.timeout(60_000)

describe("sandboxes of E2B", () => {
  let double: E2bDouble
  beforeEach(async () => {
    double = await startE2bDouble()
  })
  afterEach(() => double.stop())
  const create = async () => {
    const made = await providerOf(double).create(spec, limit())
    if (made.is !== "ok") throw new Error(JSON.stringify(made))
    return made.value.ref
  }
  const bodyOf = (path: string) =>
    double.calls.findLast((call) => call.path === path && call.method === "POST")?.json

  test("a create sends the fields that E2B's SDK sends, pauses at the end of its time, and starts the runner once", async () => {
    await Sandbox.create(CLOUD_IMAGE, {
      apiKey: E2B_KEY,
      apiUrl: double.url,
      sandboxUrl: double.url,
      metadata: { a: "b" },
      envs: { c: "d" },
      timeoutMs: 60_000,
      lifecycle: { onTimeout: "pause" },
    })
    const sdk = bodyOf("/v2/sandboxes")
    const ref = await create()
    const own = bodyOf("/v2/sandboxes")
    expect(Object.keys(own ?? {}).toSorted()).toEqual(Object.keys(sdk ?? {}).toSorted())
    expect(own).toMatchObject({ autoPause: true, timeout: 900 + 1800, envVars: spec.environment })
    expect(double.cloud.runnerStarts).toEqual([ref])
  })

  test("a hibernated session leaves a snapshot and no sandbox at E2B, and wakes from that snapshot", async () => {
    const store = openSqliteStore(":memory:")
    const hooked = { is: "ok", value: { exitCode: 0, stdout: "", stderr: "" } } as const
    const provider = { ...providerOf(double), exec: async () => hooked }
    const { keeper } = await keeperOn(store, provider, "r1", {
      specOf: async ({ id }, { generation, snapshot }) => ({
        ...spec,
        session: id,
        generation,
        labels: { deployment, tenant: "t", session: id, generation: String(generation) },
        image: snapshot === undefined ? spec.image : { kind: "snapshot", id: snapshot },
      }),
    })
    const deployment = await store.deployment()
    await keeper.add({ id: "s", tenant: "t", provider: "e2b", environment: {} })
    const start = async () => {
      await keeper.want("s", "running")
      const isMade = ({ life }: StoredSession) => life.ref !== undefined && !life.pending
      const { life } = (await keeper.waitFor("s", isMade, limit())) ?? {}
      await keeper.runner("s", { generation: life?.generation ?? 0, linked: true, busy: false })
      return life?.ref ?? ""
    }
    const first = await start()
    await keeper.want("s", "asleep", true)
    const isSaved = ({ life }: StoredSession) => life.phase === "absent" && !life.pending
    const saved = await keeper.waitFor("s", isSaved, limit())
    expect(await provider.look(first)).toEqual({ is: "missing" })
    expect([...double.cloud.snapshots.keys()]).toContain(saved?.life.snapshot?.id ?? "none")
    await start()
    expect(bodyOf("/v2/sandboxes")).toMatchObject({ templateID: saved?.life.snapshot?.id })
    await keeper.want("s", "ended")
    await keeper.waitFor("s", ({ life }) => life.phase === "ended", limit())
    await keeper.stop()
  })

  test("an API without volumes says nothing about a snapshot or a volume of the session", async () => {
    const provider = providerOf(double)
    const { id } = valueOf(await provider.snapshot(await create(), "disk", limit()))
    const image = { kind: "snapshot", id } as const
    const volumes = [{ name: "workspace", path: "/workspace" }]
    for (const call of [
      () => provider.create({ ...spec, image, volumes }, limit()),
      () => provider.removeVolume("workspace"),
    ]) {
      double.faults.set("not-found", 0)
      expect(await call()).toMatchObject({ is: "unknown", why: expect.stringContaining("404") })
      double.faults.clear()
    }
    // A team has more snapshots than one page of the list.
    for (let count = 0; count < 3; count += 1)
      await provider.snapshot(await create(), "disk", limit())
    double.faults.set("not-found", 0)
    const again = await provider.create({ ...spec, image }, limit())
    double.faults.clear()
    expect(again).toMatchObject({ is: "unknown" })
    await provider.removeSnapshot(id)
    expect(await provider.create({ ...spec, image }, limit())).toEqual({ is: "missing" })
  })

  test("a session whose name has special characters is found by its label", async () => {
    const ref = await create()
    const provider = providerOf(double)
    const found = await Array.fromAsync(provider.list({ deployment: "d", session: spec.session }))
    expect(found.map((one) => one.ref)).toContain(ref)
    expect(found.every((one) => one.session === spec.session && one.generation === 4)).toBe(true)
    expect(
      await Array.fromAsync(provider.list({ deployment: "d", session: "orchestrator" })),
    ).toEqual([])
  })

  test("the address of a port is a host of the sandbox, without headers", async () => {
    const ref = await create()
    const options = {
      apiKey: E2B_KEY,
      apiUrl: double.url,
      idleBufferMs: 1_800_000,
      clock: double.clock,
    }
    const provider = createE2bProvider({ ...options, domain: "e2b.test" })
    expect(await provider.address(ref, 9000)).toEqual({
      is: "ok",
      value: { url: `https://9000-${ref}.e2b.test`, headers: {} },
    })
    expect(await publicGateway(provider, ref)).toMatchObject({ is: "ok" })
    const behindOneUrl = createE2bProvider({
      ...options,
      domain: "e2b.test",
      sandboxUrl: double.url,
    })
    expect(await publicGateway(behindOneUrl, ref)).toMatchObject({ is: "refused" })
  })

  test("a restart of the runner ends before the runner does", async () => {
    const ref = await create()
    const before = double.cloud.runnerStarts.length
    const result = await providerOf(double).exec(ref, { argv: ["/start.sh"] }, limit())
    expect(result).toMatchObject({ is: "ok", value: { exitCode: 0 } })
    expect(double.cloud.runnerStarts.slice(before)).toEqual([ref])
  })

  test("a command that is not done at its limit is killed in the sandbox", async () => {
    const ref = await create()
    const controller = new AbortController()
    const result = providerOf(double).exec(ref, { argv: ["sleep", "600"] }, controller.signal)
    await untilTrue(() => double.cloud.running().length > 0, "running command")
    controller.abort()
    expect(await result).toMatchObject({ is: "unknown" })
    await untilEqual(() => double.cloud.running().length, 0, "end of the command")
  })

  test("an unknown template, limits and a read-only volume are refused, and no sandbox is left", async () => {
    const provider = providerOf(double)
    const before = double.cloud.boxes.size
    const changes = [
      { image: { kind: "image", id: "none" } },
      { resources: { cpu: 2 } },
      { volumes: [{ name: "models", path: "/models", readOnly: true }] },
    ] as const
    for (const change of changes)
      expect(await provider.create({ ...spec, ...change }, limit())).toMatchObject({
        is: "refused",
      })
    expect(double.cloud.boxes.size).toBe(before)
  })

  test("a wrong key is refused, and no error contains a key or a value of the environment", async () => {
    const apiKey = `e2b_${"9f".repeat(20)}`
    const options = {
      apiUrl: double.url,
      domain: "e2b.test",
      idleBufferMs: 1_800_000,
      clock: double.clock,
    }
    const provider = createE2bProvider({ ...options, apiKey })
    const results = [await provider.create(spec, limit()), await provider.health()]
    const list = Array.fromAsync(provider.list({ deployment: "d" }))
    const listed = await list.then(
      () => "a list",
      (error: unknown) => String(error),
    )
    const texts = [...results.map((one) => JSON.stringify(one)), listed]
    expect(results).toMatchObject([{ is: "refused" }, { is: "refused" }])
    for (const text of texts) {
      expect(text).toContain("401")
      expect(text).not.toContain(apiKey)
      expect(text).not.toContain("token-of-the-runner")
    }
  })
})
