/**
 * Faults of the transport at every request of every call of a sandbox provider. The answer is always `unknown`, and the next
 * call without a fault succeeds.
 */
import { beforeAll, describe, expect, test } from "bun:test"
import type { Capabilities, ProviderResult } from "../../src/fleet/providers/contract.ts"
import {
  contractSpec,
  type ContractSubject,
  limit,
  listOf,
  startSandbox,
  untilState,
  valueOf,
} from "./provider-contract.ts"

/** `before`: the service did nothing. `after`: it has done what was asked, and the answer is lost. */
const faultKinds = [
  "hang-before",
  "hang-after",
  "cut-before",
  "cut-after",
  "too-many",
  "error",
] as const
/** `not-found`: a 404 in the words of the service. */
export type FaultKind = (typeof faultKinds)[number] | "not-found"

export interface FaultSwitch {
  /**
   * The next `skip` requests pass; all later ones get the fault until `clear`. `too-many` is a 429 with `Retry-After: 7`,
   * `error` a 500. The texts of both contain the credentials that the service has received. Only one request gets `not-found`.
   */
  readonly set: (kind: FaultKind, skip: number) => void
  /** Also ends requests that hang. */
  readonly clear: () => void
  /** Resolves when the first request with the fault has reached the service and, for `after`, was carried out. */
  readonly reached: () => Promise<void>
  /** Lets the provider's own deadlines pass: advances its clock, for example. */
  readonly expire: () => void
  /** All requests so far. */
  readonly requests: () => number
  /** Credentials that no answer may contain. */
  readonly secrets: readonly string[]
  /** False: the protocol has no Retry-After. */
  readonly hasRetryAfter: boolean
}

interface Attempt {
  readonly subject: ContractSubject
  /** A name that no other attempt uses. */
  readonly session: string
  /** Ends with the deadline of the fault. */
  readonly limit: AbortSignal
  ref: string
  snapshot: string
}

interface FaultyCall {
  readonly name: string
  readonly isSupported: (can: Capabilities) => boolean
  /** What has to exist before the call. Absent: a running sandbox. */
  readonly prepare?: (attempt: Attempt) => Promise<void>
  readonly run: (attempt: Attempt) => Promise<ProviderResult<unknown>>
  /** What holds after the fault is over. */
  readonly after: (attempt: Attempt, can: Capabilities) => Promise<void>
}

const times = { idleMs: 900_000, lifeMs: 3_600_000 } as const
const isOk = (result: ProviderResult<unknown>) => expect(result).toMatchObject({ is: "ok" })
const startOne = async (attempt: Attempt) => {
  attempt.ref = await startSandbox(attempt.subject, attempt.session)
}
const stillThere = async ({ subject, ref }: Attempt) => isOk(await subject.provider.look(ref))

const calls: readonly FaultyCall[] = [
  {
    name: "create",
    isSupported: () => true,
    prepare: async () => {},
    run: ({ subject, session, limit: signal }) =>
      subject.provider.create(contractSpec(subject, session), signal),
    after: async ({ subject, session }) => {
      // What the service may have made is found by its labels and can be ended.
      const found = await listOf(subject.provider, session)
      expect(found.length).toBeLessThanOrEqual(1)
      for (const { ref, generation } of found) {
        expect(generation).toBe(1)
        isOk(await subject.provider.terminate(ref))
      }
      expect(await listOf(subject.provider, session)).toEqual([])
    },
  },
  {
    name: "look",
    isSupported: () => true,
    run: ({ subject, ref }) => subject.provider.look(ref),
    after: stillThere,
  },
  {
    name: "pause",
    isSupported: (can) => can.supportsPause,
    run: ({ subject, ref }) => subject.provider.pause(ref),
    after: async ({ subject, ref }) => {
      isOk(await subject.provider.pause(ref))
      await untilState(subject.provider, ref, "paused")
    },
  },
  {
    name: "resume",
    isSupported: (can) => can.supportsPause,
    prepare: async (attempt) => {
      await startOne(attempt)
      isOk(await attempt.subject.provider.pause(attempt.ref))
      await untilState(attempt.subject.provider, attempt.ref, "paused")
    },
    run: ({ subject, ref }) => subject.provider.resume(ref, times),
    after: async ({ subject, ref }) => {
      isOk(await subject.provider.resume(ref, times))
      await untilState(subject.provider, ref, "running")
    },
  },
  {
    name: "snapshot",
    isSupported: (can) => can.snapshot !== "none",
    run: ({ subject, ref, limit: signal }) => subject.provider.snapshot(ref, "disk", signal),
    after: async (attempt, can) => {
      // A snapshot that stops the sandbox may have been taken.
      if (can.snapshot === "copy") await stillThere(attempt)
    },
  },
  {
    name: "removeSnapshot",
    isSupported: (can) => can.snapshot !== "none",
    prepare: async (attempt) => {
      await startOne(attempt)
      const made = await attempt.subject.provider.snapshot(attempt.ref, "disk", limit())
      attempt.snapshot = valueOf(made).id
    },
    run: ({ subject, snapshot }) => subject.provider.removeSnapshot(snapshot),
    after: async ({ subject, snapshot }) => isOk(await subject.provider.removeSnapshot(snapshot)),
  },
  {
    name: "terminate",
    isSupported: () => true,
    run: ({ subject, ref }) => subject.provider.terminate(ref),
    after: async ({ subject, ref }) => {
      isOk(await subject.provider.terminate(ref))
      expect(await subject.provider.look(ref)).toEqual({ is: "missing" })
    },
  },
  {
    name: "keepAlive",
    isSupported: () => true,
    run: ({ subject, ref }) => subject.provider.keepAlive(ref, 60_000),
    after: stillThere,
  },
  {
    name: "address",
    isSupported: (can) => can.startsRunner,
    run: ({ subject, ref }) => subject.provider.address(ref, 9000),
    after: stillThere,
  },
  {
    name: "publicAddress",
    isSupported: (can) => can.startsRunner,
    run: ({ subject: { provider }, ref }) =>
      (provider.publicAddress ?? provider.address)(ref, 9000),
    after: stillThere,
  },
  {
    name: "exec",
    isSupported: (can) => can.exec,
    run: ({ subject, ref, limit: signal }) =>
      subject.provider.exec(ref, { argv: ["true"] }, signal),
    after: stillThere,
  },
  {
    name: "removeVolume",
    isSupported: (can) => can.volumes,
    prepare: async () => {},
    run: ({ subject, session }) => subject.provider.removeVolume(`workspace-${session}`),
    after: async ({ subject, session }) =>
      isOk(await subject.provider.removeVolume(`workspace-${session}`)),
  },
  {
    name: "health",
    isSupported: () => true,
    prepare: async () => {},
    run: ({ subject }) => subject.provider.health(),
    after: async ({ subject }) => isOk(await subject.provider.health()),
  },
]

export const describeFaults = (subjectOf: () => ContractSubject, can: Capabilities): void => {
  describe("faults of its transport", () => {
    let subject: ContractSubject
    let faults: FaultSwitch
    let count = 0
    beforeAll(() => {
      subject = subjectOf()
      if (!subject.faults) throw new Error("the subject has no faults: set hasFaults to false")
      faults = subject.faults
    })

    const attemptOf = async (call: FaultyCall, signal: AbortSignal): Promise<Attempt> => {
      const attempt = { subject, session: `f${++count}`, limit: signal, ref: "", snapshot: "" }
      await (call.prepare ?? startOne)(attempt)
      return attempt
    }
    const cleanUp = async ({ session }: Attempt) => {
      for (const { ref } of await listOf(subject.provider, session))
        await subject.provider.terminate(ref)
    }
    /** The call with the fault from its request number `skip` on. */
    const withFault = async <T>(
      kind: FaultKind,
      skip: number,
      run: () => Promise<T>,
      abort: () => void,
    ): Promise<T> => {
      faults.set(kind, skip)
      try {
        const result = run()
        if (kind.startsWith("hang")) {
          // A call that answers although the fault was not reached is seen by the assertion on its result.
          await Promise.race([faults.reached(), result.catch(() => undefined)])
          faults.expire()
          abort()
        }
        return await result
      } finally {
        faults.clear()
      }
    }

    for (const call of calls.filter(({ isSupported }) => isSupported(can))) {
      for (const kind of faultKinds) {
        test(`${call.name} with the fault ${kind} at each of its requests is in doubt, and it works afterwards`, async () => {
          const plain = await attemptOf(call, limit())
          const before = faults.requests()
          await call.run(plain)
          const requests = faults.requests() - before
          await cleanUp(plain)
          for (let skip = 0; skip < requests; skip++) {
            const controller = new AbortController()
            const attempt = await attemptOf(call, controller.signal)
            const result = await withFault(
              kind,
              skip,
              () => call.run(attempt),
              () => controller.abort(),
            )
            expect(result).toMatchObject({ is: "unknown" })
            const text = JSON.stringify(result)
            for (const secret of faults.secrets) expect(text).not.toContain(secret)
            if (kind === "too-many" && faults.hasRetryAfter)
              expect(result).toMatchObject({ afterMs: 7000 })
            await call.after(attempt, can)
            await cleanUp(attempt)
          }
        })
      }
    }

    if (can.snapshot !== "none")
      test("a create from a snapshot that exists does not say missing, whichever of its requests is answered with not found", async () => {
        const saved: FaultyCall = {
          name: "create",
          isSupported: () => true,
          prepare: async (attempt) => {
            await startOne(attempt)
            attempt.snapshot = valueOf(
              await subject.provider.snapshot(attempt.ref, "disk", limit()),
            ).id
            isOk(await subject.provider.terminate(attempt.ref))
          },
          run: ({ session, snapshot, limit: signal }) =>
            subject.provider.create(
              contractSpec(subject, session, {
                generation: 2,
                image: { kind: "snapshot", id: snapshot },
                volumes: can.volumes ? [{ name: `volume-${session}`, path: "/data" }] : [],
              }),
              signal,
            ),
          after: async () => {},
        }
        const plain = await attemptOf(saved, limit())
        const before = faults.requests()
        isOk(await saved.run(plain))
        const requests = faults.requests() - before
        await cleanUp(plain)
        for (let skip = subject.readsSnapshotFirst ? 1 : 0; skip < requests; skip++) {
          const attempt = await attemptOf(saved, limit())
          const run = () => saved.run(attempt)
          const result = await withFault("not-found", skip, run, () => {})
          expect(result.is).not.toBe("missing")
          await cleanUp(attempt)
        }
      })

    for (const kind of faultKinds) {
      test(`a list with the fault ${kind} throws instead of being shorter`, async () => {
        const ref = await startSandbox(subject, `list-${kind}`)
        const before = faults.requests()
        await listOf(subject.provider)
        const requests = faults.requests() - before
        expect(requests).toBeGreaterThan(0)
        for (let skip = 0; skip < requests; skip++) {
          const outcome = await withFault(
            kind,
            skip,
            () =>
              listOf(subject.provider).then(
                () => "a list",
                (error: unknown) => String(error),
              ),
            () => {},
          )
          expect(outcome).not.toBe("a list")
          for (const secret of faults.secrets) expect(outcome).not.toContain(secret)
        }
        expect((await listOf(subject.provider)).map((one) => one.ref)).toContain(ref)
        await subject.provider.terminate(ref)
      })
    }
  })
}
