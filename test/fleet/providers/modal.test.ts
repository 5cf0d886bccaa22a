/** Sandboxes of Modal: its real SDK against a double of its services, through the contract and by what is special. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { SandboxSpec } from "../../../src/fleet/providers/contract.ts"
import { createModalProvider } from "../../../src/fleet/providers/modal.ts"
import { CLOUD_IMAGE } from "../kit/cloud.ts"
import { silentLog } from "../kit/fleet.ts"
import {
  MODAL_TOKEN_ID,
  MODAL_TOKEN_SECRET,
  type ModalDouble,
  startModalDouble,
} from "../kit/modal-double.ts"
import { describeProvider, valueOf } from "../provider-contract.ts"
import { untilTrue } from "../../kit/until-true.ts"

/** The SDK reads the address from the environment when its client is made. */
const providerOf = (double: ModalDouble, tokenSecret = MODAL_TOKEN_SECRET) => {
  process.env["MODAL_SERVER_URL"] = double.url
  return createModalProvider({
    tokenId: MODAL_TOKEN_ID,
    tokenSecret,
    app: "sandpiper",
    idleBufferMs: 1_800_000,
    clock: double.clock,
    log: silentLog,
  })
}

const reads = /^(authTokenGet|appGetOrCreate|.*(Get|List|Wait|FromId)[A-Z]?.*|taskExecStdioRead)$/

describeProvider({
  name: "modal",
  can: {
    supportsPause: false,
    supportsAutoPause: false,
    snapshot: "copy",
    supportsMemorySnapshot: true,
    volumes: true,
    uniqueNames: true,
    limits: ["cpu", "memoryMiB"],
    exec: true,
    startsRunner: true,
    maxLifeMs: 86_400_000,
    snapshotLifeMs: 30 * 86_400_000,
  },
  hasDisk: true,
  hasFaults: true,
  setup: async () => {
    const double = await startModalDouble()
    return {
      provider: providerOf(double),
      image: { kind: "image", id: CLOUD_IMAGE },
      missingRef: "sb-01K00000000000000000000999",
      missingSnapshot: "im-999",
      writes: () => double.calls.filter(({ name }) => !reads.test(name)).length,
      faults: double.faults,
      stop: double.stop,
    }
  },
})

const spec = (session: string, change: Partial<SandboxSpec> = {}): SandboxSpec => ({
  session,
  generation: 2,
  name: `sp-${session}-2`,
  labels: { deployment: "d", tenant: "user:1 & more", session, generation: "2" },
  image: { kind: "image", id: CLOUD_IMAGE },
  environment: { RUNNER_TOKEN: "token-of-the-runner" },
  volumes: [],
  ports: [9000],
  resources: {},
  idleMs: 900_000,
  lifeMs: 100_000_000,
  ...change,
})
const limit = () => AbortSignal.timeout(60_000)
/** Codes of gRPC. */
const NOT_FOUND = 5
const RESOURCE_EXHAUSTED = 8
const UNAVAILABLE = 14

describe("sandboxes of Modal", () => {
  let double: ModalDouble
  let provider: ReturnType<typeof providerOf>
  beforeAll(async () => {
    double = await startModalDouble()
    provider = providerOf(double)
  })
  afterAll(() => double.stop())
  const create = async (session: string, change?: Partial<SandboxSpec>) => {
    const made = await provider.create(spec(session, change), limit())
    if (made.is !== "ok") throw new Error(JSON.stringify(made))
    return made.value.ref
  }
  const lastOf = (method: string) => double.calls.findLast(({ name }) => name === method)?.request
  const echo = { argv: ["sh", "-c", "printf done"] }

  test("a create names tags, limits, ports and times, and its main process outlives the runner", async () => {
    const before = Date.now()
    const volumes = [{ name: "models", path: "/models", readOnly: true }] as const
    const ref = await create("fields", { resources: { cpu: 2, memoryMiB: 512 }, volumes })
    expect(lastOf("sandboxCreateV2")).toMatchObject({
      definition: {
        name: "sp-fields-2",
        timeoutSecs: 86_400,
        idleTimeoutSecs: 900 + 1800,
        openPorts: { ports: [{ port: 9000, unencrypted: false }] },
        resources: { milliCpu: 2000, milliCpuMax: 2000, memoryMb: 512, memoryMbMax: 512 },
        volumeMounts: [{ mountPath: "/models", readOnly: true }],
        entrypointArgs: [
          "/bin/sh",
          "-c",
          expect.stringMatching(/start\.sh[^]*exec sleep infinity/),
        ],
      },
      secretSources: [{ env: { contents: { RUNNER_TOKEN: "token-of-the-runner" } } }],
    })
    const seen = await provider.look(ref)
    const { createdAt = 0, expiresAt = 0 } = seen.is === "ok" ? seen.value : {}
    expect(createdAt).toBeGreaterThanOrEqual(before)
    expect(expiresAt - createdAt).toBe(86_400_000)
  })

  test("labels with characters that tags cannot have are read back unchanged", async () => {
    for (const session of ["orchestrator:u1:77", "b64.plain", "ü & ".repeat(30)]) {
      const ref = await create(session, { name: `sp-${Bun.hash(session)}` })
      const found = await Array.fromAsync(provider.list({ deployment: "d", session }))
      expect(found).toMatchObject([{ ref, session, generation: 2 }])
    }
    const tags = double.cloud.boxes.values().flatMap(({ labels }) => Object.values(labels))
    for (const value of tags) expect(value).toMatch(/^[A-Za-z0-9_.-]+$/)
  })

  test("a finished sandbox is missing for every call, and its name can be used again", async () => {
    const ref = await create("finished")
    double.finish(ref)
    expect(await provider.look(ref)).toEqual({ is: "missing" })
    expect(await provider.snapshot(ref, "disk", limit())).toEqual({ is: "missing" })
    expect(await provider.exec(ref, echo, limit())).toEqual({ is: "missing" })
    expect(await provider.address(ref, 9000)).toEqual({ is: "missing" })
    expect(await provider.keepAlive(ref, 1000)).toEqual({ is: "missing" })
    expect(await provider.terminate(ref)).toMatchObject({ is: "ok" })
    expect(await create("finished")).not.toBe(ref)
  })

  test("a snapshot that is not done at its limit is in doubt, and the sandbox goes on", async () => {
    const ref = await create("slow")
    const gate = Promise.withResolvers<void>()
    double.hold("taskSnapshotFilesystem", gate.promise)
    const controller = new AbortController()
    const result = provider.snapshot(ref, "disk", controller.signal)
    await untilTrue(() => lastOf("taskSnapshotFilesystem") !== undefined, "call of the snapshot")
    controller.abort()
    expect(await result).toMatchObject({ is: "unknown" })
    gate.resolve()
    expect(await provider.look(ref)).toMatchObject({ is: "ok" })
  })

  test("a disk snapshot comes after a command and expires after thirty days", async () => {
    const ref = await create("fresh")
    const from = double.calls.length
    expect(await provider.snapshot(ref, "disk", limit())).toMatchObject({ is: "ok" })
    const names = double.calls.slice(from).map(({ name }) => name)
    expect(names.indexOf("taskExecStart")).toBeLessThan(names.indexOf("taskSnapshotFilesystem"))
    expect(names).toContain("taskExecStart")
    expect(lastOf("taskSnapshotFilesystem")).toMatchObject({ ttlSeconds: 30 * 86_400 })
  })

  test("a restored memory gets its labels and a runner with the new environment", async () => {
    const ref = await create("memory")
    await provider.exec(ref, { argv: ["sh", "-c", "printf kept > file"] }, limit())
    const made = await provider.snapshot(ref, "memory", limit())
    const id = made.is === "ok" ? made.value.id : ""
    expect(id).toStartWith("mem:")
    await provider.terminate(ref)
    const from = double.cloud.runnerStarts.length
    const restored = await create("memory", { image: { kind: "snapshot", id } })
    expect(double.cloud.runnerStarts.slice(from)).toEqual([restored])
    expect(lastOf("taskExecStart")).toMatchObject({
      secretSources: [{ env: { contents: { RUNNER_TOKEN: "token-of-the-runner" } } }],
    })
    const found = await Array.fromAsync(provider.list({ deployment: "d", session: "memory" }))
    expect(found).toMatchObject([{ ref: restored, generation: 2 }])
    const kept = await provider.exec(restored, { argv: ["cat", "file"] }, limit())
    expect(kept).toMatchObject({ value: { stdout: "kept" } })
  })

  test("an app, a volume or an environment that Modal does not find says nothing about the snapshot of the session", async () => {
    const volumes = [{ name: "workspace", path: "/workspace" }] as const
    const ref = await create("elsewhere", { volumes })
    const disk = valueOf(await provider.snapshot(ref, "disk", limit()))
    const memory = valueOf(await provider.snapshot(ref, "memory", limit()))
    await provider.terminate(ref)
    const again = async (id: string, failing: string) => {
      double.fail(failing, NOT_FOUND)
      const image = { kind: "snapshot", id } as const
      return provider.create(spec("elsewhere", { image, volumes }), limit())
    }
    for (const failing of ["appGetOrCreate", "volumeGetOrCreate", "sandboxCreateV2"])
      expect(await again(disk.id, failing)).toMatchObject({ is: "unknown" })
    for (const failing of ["sandboxRestoreV2", "sandboxTagsSetV2"])
      expect(await again(memory.id, failing)).toMatchObject({ is: "unknown" })
    const lost = { kind: "snapshot", id: "mem:sn-999" } as const
    expect(await provider.create(spec("elsewhere", { image: lost }), limit())).toEqual({
      is: "missing",
    })
    double.fail("appGetOrCreate", NOT_FOUND)
    const fresh = await provider.create(spec("elsewhere"), limit())
    expect(fresh).toMatchObject({ is: "refused", why: expect.stringContaining("sandpiper") })
  })

  test("a restored memory whose labels cannot be set is ended", async () => {
    const ref = await create("unlabelled")
    const made = await provider.snapshot(ref, "memory", limit())
    await provider.terminate(ref)
    const image = { kind: "snapshot", id: made.is === "ok" ? made.value.id : "" } as const
    double.fail("sandboxTagsSetV2", RESOURCE_EXHAUSTED)
    const restored = await provider.create(spec("unlabelled", { image }), limit())
    expect(restored).toMatchObject({ is: "unknown" })
    const named = [...double.cloud.boxes.values()].filter(({ name }) => name === "sp-unlabelled-2")
    expect(named.map(({ state }) => state)).toEqual(["stopped", "stopped"])
  })

  test("a command works although its router is away for a moment, and is in doubt if the router refuses it", async () => {
    const ref = await create("router")
    double.fail("taskExecStart", UNAVAILABLE, 2)
    expect(await provider.exec(ref, echo, limit())).toMatchObject({ value: { stdout: "done" } })
    double.fail("taskExecStart", RESOURCE_EXHAUSTED)
    expect(await provider.exec(ref, echo, limit())).toMatchObject({ is: "unknown" })
    expect(await provider.look(ref)).toMatchObject({ is: "ok" })
  })

  test("a restart of the runner ends before the runner does", async () => {
    const ref = await create("restart")
    const result = await provider.exec(ref, { argv: ["/start.sh"] }, limit())
    expect(result).toMatchObject({ is: "ok", value: { exitCode: 0 } })
    expect(double.cloud.runnerStarts.at(-1)).toBe(ref)
  })

  test("an address is that of the encrypted tunnel, and a port that is not open is refused", async () => {
    const ref = await create("address")
    expect(await provider.address(ref, 9000)).toEqual({
      is: "ok",
      value: { url: `https://${ref.toLowerCase()}-9000.modal.test`, headers: {} },
    })
    expect(await provider.address(ref, 9001)).toMatchObject({ is: "refused" })
  })

  test("a wrong token is refused, and no error contains it or a value of the environment", async () => {
    const secret = `as-${"2Wb".repeat(8)}`
    const other = providerOf(double, secret)
    const results = [await other.create(spec("token"), limit()), await other.health()]
    const listed = await Array.fromAsync(other.list({ deployment: "d" })).then(
      () => "a list",
      (error: unknown) => String(error),
    )
    expect(results).toMatchObject([{ is: "refused" }, { is: "refused" }])
    for (const text of [...results.map((one) => JSON.stringify(one)), listed]) {
      expect(text).toContain("is not valid")
      expect(text).not.toContain(secret)
      expect(text).not.toContain(MODAL_TOKEN_ID)
      expect(text).not.toContain("token-of-the-runner")
    }
  })
})
