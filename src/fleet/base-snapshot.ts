/**
 * Makes the base snapshot of the present version: one sandbox starts, is saved when its agent is ready, and ends in every
 * case. It is asked for by the operator, never by a session that waits.
 */
import { SignJWT } from "jose"
import { type Clock, sleep } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { SNAPSHOT_CALL_MS } from "../wire/snapshot-times.ts"
import { ApiError, gatewayAddressOf } from "./api/api-call.ts"
import { baseName, currentBase } from "./core/base-snapshots.ts"
import { isGivenUp } from "./core/life.ts"
import { workspaceVolume } from "./core/names.ts"
import { POOL_TENANT } from "./core/pool.ts"
import type { HubPort } from "./hub-port.ts"
import type { Keeper } from "./keeper.ts"
import type { SandboxProvider } from "./providers/contract.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface BaseSnapshotOptions {
  readonly store: FleetStore
  readonly keeper: Keeper
  readonly hub: HubPort
  readonly provider: SandboxProvider
  readonly runtimeKey: string
  readonly added: (session: string) => Promise<void>
  readonly clock: Clock
  readonly log: Log
}

export interface BaseSnapshots {
  /** The snapshot for new sandboxes; undefined if there is none. */
  readonly current: () => Promise<string | undefined>
  /** Makes one, unless there is one of this version. `again`: also then; the new one is used from now on. */
  readonly make: (again?: boolean) => Promise<{ readonly id: string; readonly isNew: boolean }>
  /** The provider does not have it any more. */
  readonly gone: (id: string) => Promise<void>
}

const BUILD_MS = 10 * 60_000
const READY_MS = 3 * 60_000
const CALL_MS = 2 * 60_000
const POLL_MS = 250
const TOKEN_SECONDS = 60

/** What the runner of the build knows must not reach the sandboxes of sessions; OpenCode's cache stays. */
const FORGET = [
  "/bin/sh",
  "-c",
  'cd "${SANDPIPER_STATE_DIR:-/var/lib/sandpiper}" && find . -mindepth 1 -maxdepth 2 ! -path ./machine ! -path ./machine/cache -exec rm -rf {} +',
]

export const createBaseSnapshots = (options: BaseSnapshotOptions): BaseSnapshots => {
  const { store, keeper, hub, provider, clock, log, runtimeKey } = options

  const current: BaseSnapshots["current"] = async () =>
    provider.can.snapshot === "none"
      ? undefined
      : currentBase(await store.snapshots(), runtimeKey, provider.can.snapshotLifeMs, clock.now())

  const failed = (why: string) => new ApiError(503, "not-made", `no base snapshot: ${why}`, 30)

  const isAgentReady = async (session: StoredSession): Promise<boolean> => {
    const key = await hub.gatewayKey(session.id, session.life.generation)
    if (key === undefined) throw failed("the hub has no key for the sandbox's gateway")
    const address = await gatewayAddressOf(provider, session)
    // The provider does not answer at the moment: it is asked again.
    if (!address) return false
    // A control token does not open this route, which is for observers.
    const token = await new SignJWT({ sid: session.id })
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setSubject("fleet")
      .setExpirationTime(Math.floor(clock.now() / 1000) + TOKEN_SECONDS)
      .sign(new TextEncoder().encode(key))
    const headers = { ...address.headers, authorization: `Bearer ${token}` }
    const limit = AbortSignal.timeout(CALL_MS)
    const answer = await fetch(`${address.url}/ready`, { headers, signal: limit }).catch(
      () => undefined,
    )
    const text = await answer?.text().catch(() => undefined)
    return answer?.ok === true && text !== undefined
  }

  const run = async (ref: string, argv: readonly string[]): Promise<void> => {
    const done = await provider.exec(ref, { argv }, AbortSignal.timeout(CALL_MS))
    if (done.is !== "ok" || done.value.exitCode !== 0)
      throw failed(`${argv.slice(0, 3).join(" ").slice(0, 60)} did not succeed in the sandbox`)
  }

  const build = async (id: string): Promise<string> => {
    await keeper.want(id, "running")
    const isThere = ({ life }: StoredSession) => life.phase === "running" || isGivenUp(life)
    const made = await keeper.waitFor(id, isThere, AbortSignal.timeout(READY_MS))
    const ref = made?.life.ref
    if (!made || made.life.phase !== "running" || ref === undefined)
      throw failed(made?.life.lastError ?? "the sandbox did not start in time")
    const until = clock.now() + READY_MS
    while (!(await isAgentReady(made))) {
      if (clock.now() > until) throw failed("the agent was not ready in time")
      await sleep(clock, POLL_MS)
    }
    await run(ref, ["sandpiper", "hook", "pre-snapshot"])
    await run(ref, FORGET)
    const saved = await provider.snapshot(ref, "disk", AbortSignal.timeout(SNAPSHOT_CALL_MS))
    if (saved.is !== "ok") throw failed("why" in saved ? saved.why : "the sandbox is gone")
    const snapshot = saved.value.id
    await store.addSnapshot({
      id: snapshot,
      session: baseName(runtimeKey),
      createdAt: clock.now(),
    })
    return snapshot
  }

  const discard = async (id: string): Promise<void> => {
    await keeper.want(id, "ended")
    await hub.end(id, "its snapshot was made")
    const isOver = ({ life }: StoredSession) => life.phase === "ended"
    const ended = await keeper.waitFor(id, isOver, AbortSignal.timeout(READY_MS))
    if (ended?.life.phase !== "ended") return
    if (provider.can.volumes) {
      const removed = await provider.removeVolume(workspaceVolume(id))
      // The caretaker removes it later, and the row with it.
      if (removed.is !== "ok" && removed.is !== "missing") return
    }
    await store.forget(id)
  }

  return {
    current,
    gone: (id) => store.dropSnapshot(id),
    make: async (again = false) => {
      if (provider.can.snapshot === "none" || !provider.can.exec)
        throw new ApiError(
          409,
          "not-supported",
          `the provider ${provider.name} cannot make base snapshots: start \`serve\` with another --provider`,
        )
      const known = await current()
      if (known !== undefined && !again) return { id: known, isNew: false }
      const at = clock.now()
      const builder = crypto.randomUUID()
      if (!(await store.lease("base-snapshot", builder, at, at + BUILD_MS)))
        throw new ApiError(
          409,
          "in-progress",
          "a base snapshot is being made already: wait for its end",
          30,
        )
      const id = `base-${crypto.randomUUID()}`
      await keeper.add({
        id,
        kind: "base",
        tenant: POOL_TENANT,
        provider: provider.name,
        environment: {},
      })
      try {
        await hub.reserve(id)
        await options.added(id)
        const snapshot = await build(id)
        log.info("base-snapshot.made", { snapshot, ms: clock.now() - at })
        return { id: snapshot, isNew: true }
      } finally {
        await discard(id).catch((error: unknown) =>
          log.warn("base-snapshot.not-discarded", { session: id, error: String(error) }),
        )
        await store.lease("base-snapshot", builder, clock.now(), clock.now())
      }
    },
  }
}
