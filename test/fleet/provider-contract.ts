/**
 * The contract suite of sandbox providers. Every provider runs it: real ones with real sandboxes, cloud providers against a
 * double of their service. A double also runs the faults of `provider-faults.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import {
  type Capabilities,
  type ImageChoice,
  limitNames,
  type SandboxInfo,
  type SandboxProvider,
  type SandboxSpec,
  UnsupportedError,
} from "../../src/fleet/providers/contract.ts"
import { publicGateway } from "../../src/fleet/providers/public-gateway.ts"
import { describeFaults, type FaultSwitch } from "./provider-faults.ts"
import { untilTrue } from "../kit/until-true.ts"

export interface ContractSubject {
  readonly provider: SandboxProvider
  /** The image of a new sandbox. */
  readonly image: ImageChoice
  /** A ref in the provider's form that belongs to no sandbox. */
  readonly missingRef: string
  /** A snapshot id in the provider's form that belongs to no snapshot. */
  readonly missingSnapshot: string
  /** The first request of a create from a snapshot reads that snapshot: its "not found" is the service's word. */
  readonly readsSnapshotFirst?: true
  /** Requests that change something, counted by the double. Absent: the state of the sandboxes is compared only. */
  readonly writes?: () => number
  /** Present for a provider that speaks over a transport. */
  readonly faults?: FaultSwitch
  readonly stop: () => Promise<void>
}

export interface ContractOptions {
  /** Its part of the test names. */
  readonly name: string
  /** The expected capabilities: the suite compares them, and then tests that they are true. */
  readonly can: Capabilities
  readonly setup: () => Promise<ContractSubject>
  /** The sandboxes have a real disk: files of snapshots and volumes are read back. */
  readonly hasDisk: boolean
  /** The subject has `faults`. */
  readonly hasFaults: boolean
}

const DEPLOYMENT = "contract"
const times = { idleMs: 900_000, lifeMs: 3_600_000 } as const

export const contractSpec = (
  subject: ContractSubject,
  session: string,
  change: Partial<SandboxSpec> = {},
): SandboxSpec => ({
  session,
  generation: 1,
  name: `sp-${session}-${change.generation ?? 1}`,
  labels: {
    deployment: DEPLOYMENT,
    tenant: "user:contract",
    session,
    generation: String(change.generation ?? 1),
  },
  image: subject.image,
  environment: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", SESSION_ID: session },
  volumes: [],
  ports: [9000],
  resources: {},
  ...times,
  ...change,
})

export const limit = (): AbortSignal => AbortSignal.timeout(60_000)

export const listOf = async (
  provider: SandboxProvider,
  session?: string,
): Promise<readonly SandboxInfo[]> =>
  Array.fromAsync(
    provider.list({ deployment: DEPLOYMENT, ...(session !== undefined && { session }) }),
  )

/** A result that has to be `ok`. */
export const valueOf = <T>(
  result: { readonly is: "ok"; readonly value: T } | { readonly is: string },
): T => {
  if ("value" in result) return result.value
  throw new Error(`not ok: ${JSON.stringify(result)}`)
}

export const untilState = async (
  provider: SandboxProvider,
  ref: string,
  state: SandboxInfo["state"],
): Promise<void> => {
  let last = ""
  const isThere = async () => {
    const seen = await provider.look(ref)
    last = JSON.stringify(seen)
    return seen.is === "ok" && seen.value.state === state
  }
  await untilTrue(isThere, () => `state ${state} of ${ref} but ${last}`)
}

export const startSandbox = async (
  subject: ContractSubject,
  session: string,
  change: Partial<SandboxSpec> = {},
): Promise<string> => {
  const made = await subject.provider.create(contractSpec(subject, session, change), limit())
  const { ref } = valueOf(made)
  await untilState(subject.provider, ref, "running")
  return ref
}

export const describeProvider = (options: ContractOptions): void => {
  const { can, name } = options
  describe(`the contract of the sandbox provider ${name}`, () => {
    let subject: ContractSubject
    let provider: SandboxProvider
    const start = (session: string, change?: Partial<SandboxSpec>) =>
      startSandbox(subject, session, change)
    const shell = (ref: string, script: string) =>
      provider.exec(ref, { argv: ["sh", "-c", script] }, limit())

    beforeAll(async () => {
      subject = await options.setup()
      provider = subject.provider
    })
    afterAll(async () => {
      for (const { ref } of await listOf(provider)) await provider.terminate(ref)
      await subject.stop()
    })

    test("the capabilities of the provider are the expected ones, and its health is ok", async () => {
      expect(provider.can).toEqual(can)
      expect(await provider.health()).toMatchObject({ is: "ok" })
    })

    test("a created sandbox runs and is listed with its session and generation, for its deployment only", async () => {
      const ref = await start("create", { generation: 3 })
      expect(await listOf(provider, "create")).toMatchObject([
        { ref, session: "create", generation: 3, state: "running" },
      ])
      expect(await listOf(provider, "another")).toEqual([])
      expect((await listOf(provider)).map((one) => one.ref)).toContain(ref)
      const foreign = provider.list({ deployment: "another", session: "create" })
      expect(await Array.fromAsync(foreign)).toEqual([])
      expect(await provider.keepAlive(ref, 60_000)).toMatchObject({ is: "ok" })
    })

    test("a second create under the same name gives no second sandbox, or both are listed", async () => {
      const ref = await start("twice")
      const again = await provider.create(contractSpec(subject, "twice"), limit())
      const found = await listOf(provider, "twice")
      expect(found.map((one) => one.ref)).toContain(ref)
      if (can.uniqueNames) {
        expect(again).toMatchObject({ is: "unknown" })
        expect(found).toHaveLength(1)
      } else expect(found).toHaveLength(2)
    })

    test("listing sandboxes and looking at one change nothing", async () => {
      const ref = await start("reads")
      if (can.supportsPause) {
        valueOf(await provider.pause(ref))
        await untilState(provider, ref, "paused")
      }
      const before = subject.writes?.()
      const [first] = await listOf(provider, "reads")
      await provider.look(ref)
      const [second] = await listOf(provider, "reads")
      expect(second).toEqual(first)
      expect(second?.state).toBe(can.supportsPause ? "paused" : "running")
      expect(subject.writes?.()).toBe(before)
    })

    test("a terminated sandbox is missing, and a second terminate is ok", async () => {
      const ref = await start("end")
      expect(await provider.terminate(ref)).toMatchObject({ is: "ok" })
      expect(await provider.terminate(ref)).toMatchObject({ is: "ok" })
      expect(await listOf(provider, "end")).toEqual([])
      expect(await provider.look(ref)).toEqual({ is: "missing" })
    })

    test("every call for a sandbox that does not exist says missing, and only terminate is ok", async () => {
      const ref = subject.missingRef
      expect(await provider.look(ref)).toEqual({ is: "missing" })
      expect(await provider.keepAlive(ref, 1000)).toEqual({ is: "missing" })
      if (can.startsRunner) {
        expect(await provider.address(ref, 9000)).toEqual({ is: "missing" })
        expect(await publicGateway(provider, ref)).toEqual({ is: "missing" })
      }
      if (can.supportsPause) {
        expect(await provider.pause(ref)).toEqual({ is: "missing" })
        expect(await provider.resume(ref, times)).toEqual({ is: "missing" })
      }
      if (can.snapshot !== "none")
        expect(await provider.snapshot(ref, "disk", limit())).toEqual({ is: "missing" })
      if (can.exec)
        expect(await provider.exec(ref, { argv: ["true"] }, limit())).toEqual({ is: "missing" })
      expect(await provider.terminate(ref)).toMatchObject({ is: "ok" })
    })

    test("a ref that cannot be the name of a sandbox finds none", async () => {
      await start("other")
      for (const ref of ["..", "../boxes", "sp-other-1/..", "%2e%2e", "sp-other-1?x=1", "a b"])
        expect((await provider.look(ref)).is).not.toBe("ok")
    })

    if (can.supportsPause) {
      test("a paused sandbox stays under its ref, and a second pause and a second resume are ok", async () => {
        const ref = await start("pause")
        expect(await provider.pause(ref)).toMatchObject({ is: "ok" })
        await untilState(provider, ref, "paused")
        expect(await provider.pause(ref)).toMatchObject({ is: "ok" })
        await untilState(provider, ref, "paused")
        expect(await provider.resume(ref, times)).toMatchObject({ is: "ok" })
        await untilState(provider, ref, "running")
        expect(await provider.resume(ref, times)).toMatchObject({ is: "ok" })
        expect(await listOf(provider, "pause")).toHaveLength(1)
      })

      test("a paused sandbox can be terminated", async () => {
        const ref = await start("pause-end")
        valueOf(await provider.pause(ref))
        await untilState(provider, ref, "paused")
        expect(await provider.terminate(ref)).toMatchObject({ is: "ok" })
        expect(await provider.look(ref)).toEqual({ is: "missing" })
      })
    } else {
      test("a pause is refused by name, as the capabilities say", async () => {
        const ref = await start("pause")
        expect(provider.pause(ref)).rejects.toThrow(UnsupportedError)
      })
    }

    if (can.snapshot === "none") {
      test("a snapshot is refused by name, as the capabilities say", async () => {
        const ref = await start("snapshot")
        expect(provider.snapshot(ref, "disk", limit())).rejects.toThrow(UnsupportedError)
      })
    } else {
      test("a snapshot leaves the sandbox as the capabilities say, and a new generation starts from it", async () => {
        const ref = await start("snapshot")
        if (options.hasDisk) await shell(ref, "printf kept > work.txt")
        const { id } = valueOf(await provider.snapshot(ref, "disk", limit()))
        if (can.snapshot === "copy") await untilState(provider, ref, "running")
        if (can.snapshot === "pause") await untilState(provider, ref, "paused")
        if (can.snapshot === "stop") expect((await provider.look(ref)).is).toBe("missing")
        await provider.terminate(ref)
        const restored = await start("snapshot", { generation: 2, image: { kind: "snapshot", id } })
        expect(await listOf(provider, "snapshot")).toMatchObject([{ ref: restored, generation: 2 }])
        if (options.hasDisk)
          expect(await shell(restored, "cat work.txt")).toMatchObject({ value: { stdout: "kept" } })
        expect(await provider.removeSnapshot(id)).toMatchObject({ is: "ok" })
        expect(await provider.removeSnapshot(id)).toMatchObject({ is: "ok" })
      })

      test("a snapshot is listed for its deployment only, until it is removed, if the provider lists snapshots", async () => {
        const idsOf = async (deployment: string) => {
          const found = provider.listSnapshots?.({ deployment }) ?? []
          return (await Array.fromAsync(found)).map(({ id }) => id)
        }
        const ref = await start("listed")
        const { id } = valueOf(await provider.snapshot(ref, "disk", limit()))
        await provider.terminate(ref)
        if (provider.listSnapshots) {
          expect(await idsOf(DEPLOYMENT)).toContain(id)
          expect(await idsOf("another")).toEqual([])
        }
        await provider.removeSnapshot(id)
        expect(await idsOf(DEPLOYMENT)).not.toContain(id)
      })

      test("a create from a snapshot that does not exist says missing and leaves no sandbox", async () => {
        const image = { kind: "snapshot", id: subject.missingSnapshot } as const
        const made = await provider.create(contractSpec(subject, "lost", { image }), limit())
        expect(made).toEqual({ is: "missing" })
        expect(await listOf(provider, "lost")).toEqual([])
        const removed = await provider.removeSnapshot(subject.missingSnapshot)
        expect(removed).toMatchObject({ is: "ok" })
      })
    }

    if (!can.supportsMemorySnapshot) {
      test("a snapshot of memory is refused by name, as the capabilities say", async () => {
        const ref = await start("memory")
        expect(provider.snapshot(ref, "memory", limit())).rejects.toThrow(UnsupportedError)
      })
    }

    if (can.exec) {
      test("a command has the sandbox's environment, and its output and exit code are returned", async () => {
        const ref = await start("exec")
        const result = await shell(ref, 'printf "%s" "$SESSION_ID"; printf problem >&2; exit 3')
        expect(result).toEqual({
          is: "ok",
          value: { exitCode: 3, stdout: "exec", stderr: "problem" },
        })
      })
    } else {
      test("a command is refused by name, as the capabilities say", async () => {
        const ref = await start("exec")
        expect(provider.exec(ref, { argv: ["true"] }, limit())).rejects.toThrow(UnsupportedError)
      })
    }

    const volumes = [{ name: "workspace-volume", path: "/data" }] as const
    if (can.volumes) {
      test("a volume outlives its sandbox, and a second removal is ok", async () => {
        const ref = await start("volume", { volumes })
        if (options.hasDisk) await shell(ref, "printf kept > /data/work.txt")
        await provider.terminate(ref)
        const second = await start("volume", { volumes, generation: 2 })
        if (options.hasDisk)
          expect(await shell(second, "cat /data/work.txt")).toMatchObject({
            value: { stdout: "kept" },
          })
        await provider.terminate(second)
        expect(await provider.removeVolume("workspace-volume")).toMatchObject({ is: "ok" })
        expect(await provider.removeVolume("workspace-volume")).toMatchObject({ is: "ok" })
      })
    } else {
      test("a sandbox with a volume is refused, as the capabilities say", async () => {
        const made = await provider.create(contractSpec(subject, "volume", { volumes }), limit())
        expect(made).toMatchObject({ is: "refused" })
        expect(await listOf(provider, "volume")).toEqual([])
      })
    }

    for (const limited of limitNames.filter((one) => !can.limits.includes(one)))
      test(`a sandbox with the limit ${limited} is refused, as the capabilities say`, async () => {
        const change = { resources: { [limited]: 512 } }
        const made = await provider.create(contractSpec(subject, "limits", change), limit())
        expect(made).toMatchObject({ is: "refused" })
        expect(await listOf(provider, "limits")).toEqual([])
      })

    if (options.hasFaults) describeFaults(() => subject, can)
  })
}
