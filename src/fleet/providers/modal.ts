/**
 * Sandboxes of Modal, through its SDK. Modal cannot pause: a session sleeps as a snapshot of its disk. A sandbox ends after
 * 24 hours, and one without commands and connections after its idle time, so a busy one is kept alive.
 */
import type { ModalClient, Sandbox } from "modal"
import { type Clock, sleep } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { cloudVolumeName, hasLabels, labelsToFind, type IdleBuffer } from "./cloud-labels.ts"
import {
  type ProviderResult,
  type SandboxInfo,
  type SandboxProvider,
  UnsupportedError,
} from "./contract.ts"
import { isModalMissing, mayBeFinished, openModal, resultOfError } from "./modal-client.ts"
import {
  appOf,
  createFromImage,
  createFromMemory,
  lookAtSnapshot,
  MEMORY,
  runIn,
  wholeSeconds,
} from "./modal-sandbox.ts"
import { encodeTags, modalInfo, modalTags } from "./modal-tags.ts"
import { argvOf } from "./start-runner.ts"

export interface ModalOptions extends IdleBuffer {
  readonly tokenId: string
  readonly tokenSecret: string
  /** The app that owns the sandboxes; it is created. */
  readonly app: string
  /** Modal's environment. Absent: the default of the workspace. */
  readonly environment?: string | undefined
  readonly clock: Clock
  readonly log: Log
}

const MAX_LIFE_MS = 86_400_000
const SNAPSHOT_LIFE_MS = 30 * MAX_LIFE_MS
const SNAPSHOT_MS = 10 * 60_000
const END_MS = 60_000
const POLL_MS = 250
const TUNNELS_MS = 50_000
const REF = /^sb-[A-Za-z0-9]{1,60}$/

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const

export const createModalProvider = (options: ModalOptions): SandboxProvider => {
  const { clock, app: appName } = options
  const secrets = [options.tokenId, options.tokenSecret]
  let opened: Promise<ModalClient> | undefined
  const client = (): Promise<ModalClient> =>
    (opened ??= openModal({ ...options, environment: options.environment }))

  /** Rejects when the limit is reached. What was asked may still be done. */
  const within = async <T>(limit: AbortSignal | undefined, work: Promise<T>): Promise<T> => {
    if (!limit) return work
    const late = Promise.withResolvers<never>()
    const give = () => late.reject(new Error("no answer in time"))
    limit.addEventListener("abort", give)
    if (limit.aborted) give()
    try {
      return await Promise.race([work, late.promise])
    } finally {
      limit.removeEventListener("abort", give)
      // Its failure after the limit is of no interest.
      work.catch(() => {})
    }
  }

  /** Runs calls of the SDK; an exception becomes a result. */
  const attempt = async <T>(
    run: (modal: ModalClient) => Promise<ProviderResult<T>>,
    limit?: AbortSignal,
    more: readonly string[] = [],
  ): Promise<ProviderResult<T>> => {
    try {
      return await within(limit, client().then(run))
    } catch (error) {
      return isModalMissing(error) ? missing : resultOfError(error, [...secrets, ...more])
    }
  }

  /** Runs calls for one sandbox and closes its connection afterwards. A finished sandbox is missing. */
  const withSandbox = <T>(
    ref: string,
    run: (sandbox: Sandbox, modal: ModalClient) => Promise<ProviderResult<T>>,
    limit?: AbortSignal,
    more?: readonly string[],
  ): Promise<ProviderResult<T>> =>
    REF.test(ref)
      ? attempt(
          async (modal) => {
            const sandbox = await modal.sandboxes.fromId(ref)
            try {
              return await run(sandbox, modal)
            } catch (error) {
              if (!mayBeFinished(error)) throw error
              return (await sandbox.poll()) === null
                ? resultOfError(error, [...secrets, ...(more ?? [])])
                : missing
            } finally {
              sandbox.detach()
            }
          },
          limit,
          more,
        )
      : Promise.resolve(missing)

  return {
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
      maxLifeMs: MAX_LIFE_MS,
      snapshotLifeMs: SNAPSHOT_LIFE_MS,
    },
    list: async function* (by) {
      const wanted = encodeTags(labelsToFind(by))
      const tags = Object.entries(wanted).map(([tagName, tagValue]) => ({ tagName, tagValue }))
      const found = await attempt(async (modal) => {
        const { appId } = await appOf(modal, appName)
        const all: SandboxInfo[] = []
        let beforeTimestamp: number | undefined
        for (;;) {
          // The SDK's own list leaves the tags out, which would cost a call for each sandbox.
          const { sandboxes } = await modal.cpClient.sandboxListV2({
            appId,
            tags,
            includeFinished: false,
            ...(beforeTimestamp !== undefined && { beforeTimestamp }),
          })
          if (sandboxes.length === 0) return { is: "ok", value: all }
          for (const { id, tags: own } of sandboxes) {
            const known = Object.fromEntries(own.map((tag) => [tag.tagName, tag.tagValue]))
            if (hasLabels(known, wanted)) all.push(modalInfo(id, known))
          }
          beforeTimestamp = sandboxes.at(-1)?.createdAt
        }
      })
      if (found.is !== "ok")
        throw new Error(found.is === "missing" ? "Modal has no list of sandboxes" : found.why)
      yield* found.value
    },
    look: (ref) =>
      withSandbox(ref, async (sandbox) => {
        if ((await sandbox.poll()) !== null) return missing
        return { is: "ok", value: modalInfo(ref, await sandbox.getTags()) }
      }),
    create: async (spec, limit) => {
      if (spec.resources.pids !== undefined)
        return { is: "refused", why: "Modal has no limit of processes" }
      const now = clock.now()
      const lifeMs = Math.min(wholeSeconds(spec.lifeMs), MAX_LIFE_MS)
      const isMemory = spec.image.kind === "snapshot" && spec.image.id.startsWith(MEMORY)
      const own = Object.values(spec.environment)
      return attempt<{ readonly ref: string; readonly expiresAt: number }>(
        async (modal) => {
          const tags = modalTags(spec.labels, now, lifeMs)
          const times = { lifeMs, idleMs: wholeSeconds(spec.idleMs + options.idleBufferMs) }
          try {
            const sandbox = isMemory
              ? await createFromMemory(modal, spec, tags)
              : await createFromImage(modal, spec, tags, times, appName)
            const ref = sandbox.sandboxId
            sandbox.detach()
            return { is: "ok", value: { ref, expiresAt: now + lifeMs } }
          } catch (error) {
            if (!isModalMissing(error)) throw error
            // Modal says it of apps, environments and volumes, too: only a look at the snapshot itself decides.
            const { why } = resultOfError(error, [...secrets, ...own])
            if (spec.image.kind === "image") return { is: "refused", why }
            await lookAtSnapshot(modal, spec.image.id)
            return { is: "unknown", why }
          }
        },
        limit,
        own,
      )
    },
    pause: () => Promise.reject(new UnsupportedError("modal", "pause")),
    resume: () => Promise.reject(new UnsupportedError("modal", "resume")),
    snapshot: (ref, kind, limit) =>
      withSandbox(
        ref,
        async (sandbox) => {
          if (kind === "memory") {
            const { snapshotId } = await sandbox.experimentalSnapshot()
            return { is: "ok", value: { id: `${MEMORY}${snapshotId}` } }
          }
          // A snapshot right after the start fails unless a command has run.
          await runIn(sandbox, { argv: ["true"] })
          const image = await sandbox.snapshotFilesystem({ timeoutMs: SNAPSHOT_MS })
          return { is: "ok", value: { id: image.imageId } }
        },
        limit,
      ),
    removeSnapshot: async (snapshot) => {
      // Modal has no call for those with memory: they expire.
      if (snapshot.startsWith(MEMORY)) return ok
      const removed = await attempt<void>(async (modal) => {
        await modal.images.delete(snapshot)
        return ok
      })
      return removed.is === "missing" ? ok : removed
    },
    terminate: async (ref) => {
      const ended = await withSandbox<void>(ref, async (sandbox) => {
        await sandbox.terminate()
        const until = clock.now() + END_MS
        while ((await sandbox.poll()) === null) {
          if (clock.now() >= until) return { is: "unknown", why: "the sandbox has not ended yet" }
          await sleep(clock, POLL_MS)
        }
        return ok
      })
      return ended.is === "missing" ? ok : ended
    },
    /** A command counts as activity. The end of its life cannot be moved. */
    keepAlive: (ref) =>
      withSandbox(ref, async (sandbox) => {
        await runIn(sandbox, { argv: ["true"] })
        return ok
      }),
    address: (ref, port) =>
      withSandbox(ref, async (sandbox) => {
        const url = (await sandbox.tunnels(TUNNELS_MS))[port]?.url
        return url === undefined
          ? { is: "refused", why: `the port ${port} of the sandbox is not open` }
          : { is: "ok", value: { url, headers: {} } }
      }),
    exec: (ref, command, limit) =>
      withSandbox(
        ref,
        async (sandbox) => ({
          is: "ok",
          value: await runIn(sandbox, { ...command, argv: argvOf(command) }),
        }),
        limit,
        Object.values(command.environment ?? {}),
      ),
    removeVolume: (name) =>
      attempt<void>(async (modal) => {
        await modal.volumes.delete(cloudVolumeName(name), { allowMissing: true })
        return ok
      }),
    health: () =>
      attempt<void>(async (modal) => {
        await appOf(modal, appName)
        return ok
      }),
  }
}
