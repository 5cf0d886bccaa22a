/**
 * Sandboxes of Daytona, over its REST API. Its calls only begin a change of state, so this provider waits for the end of
 * the change. Daytona stops an idle sandbox by itself and deletes one that stays stopped for two days.
 */
import { type Clock, sleep } from "../../lib/clock.ts"
import {
  cloudSnapshotName,
  hasLabels,
  labelsToFind,
  readCloudSnapshotName,
  toCloudLabels,
  type IdleBuffer,
} from "./cloud-labels.ts"
import {
  type ProviderResult,
  type SandboxProvider,
  type SandboxSpec,
  UnsupportedError,
} from "./contract.ts"
import {
  type Change,
  changes,
  DAYTONA_PORTS,
  DAYTONA_REF,
  daytonaInfo,
  daytonaPage,
  daytonaPreview,
  type DaytonaSandbox,
  daytonaSandbox,
  daytonaSnapshot,
  daytonaSnapshots,
  isGone,
  readToolbox,
  toolboxCommand,
} from "./daytona-api.ts"
import { jsonAs } from "./cloud-json.ts"
import { createByHttp } from "./create-not-found.ts"
import { daytonaVolumes } from "./daytona-volumes.ts"
import { createHttpApi, type HttpAnswer } from "./http.ts"
import { argvOf } from "./start-runner.ts"

export interface DaytonaOptions extends IdleBuffer {
  readonly apiKey: string
  /** With `/api` at its end. */
  readonly apiUrl: string
  /** The region. Absent: the organization's default. */
  readonly target?: string | undefined
  readonly clock: Clock
}

const POLL_MS = 250
const START_MS = changes.start.waitMs
const CHANGE_MS = changes.stop.waitMs
const SNAPSHOT_MS = 10 * 60_000
const EXEC_MS = 10 * 60_000
const ARCHIVE_MINUTES = 60
const DELETE_MINUTES = 2880
const PAGE = 100
/** The most that Daytona allows. */
const SIGNED_SECONDS = 86_400

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const

/** Daytona also says it with a 400. */
const isSnapshotMissing = ({ status, text, json }: HttpAnswer): boolean =>
  typeof json === "object" &&
  json !== null &&
  (status === 404 || (status === 400 && /snapshot .*not found/i.test(text)))

export const createDaytonaProvider = (options: DaytonaOptions): SandboxProvider => {
  const { apiKey, clock } = options
  const { protocol } = new URL(options.apiUrl)
  const connection = {
    headers: () => ({ authorization: `Bearer ${apiKey}` }),
    secrets: () => [apiKey],
    clock,
  }
  const api = createHttpApi({ ...connection, base: options.apiUrl })
  const path = (ref: string, verb = "") => `/sandbox/${ref}${verb}`

  const read = async (ref: string): Promise<ProviderResult<DaytonaSandbox>> => {
    if (!DAYTONA_REF.test(ref)) return missing
    const found = await api.call(
      { method: "GET", path: path(ref) },
      { read: jsonAs(daytonaSandbox) },
    )
    return found.is === "ok" && isGone(found.value) ? missing : found
  }

  const readSnapshot = (snapshot: string) =>
    api.call(
      { method: "GET", path: `/snapshots/${encodeURIComponent(snapshot)}` },
      { read: jsonAs(daytonaSnapshot) },
    )

  /** Reads the sandbox until its state fits. A read that fails ends the wait: what happens then is in doubt. */
  const waitFor = async (
    ref: string,
    fits: (box: DaytonaSandbox) => boolean,
    waitMs: number,
    limit?: AbortSignal,
  ): Promise<ProviderResult<DaytonaSandbox>> => {
    const until = clock.now() + waitMs
    for (;;) {
      const found = await read(ref)
      if (found.is !== "ok" || fits(found.value)) return found
      if (limit?.aborted || clock.now() >= until)
        return { is: "unknown", why: `the sandbox is still ${found.value.state}` }
      await sleep(clock, POLL_MS, limit)
    }
  }

  /**
   * Asks for a change of state and waits for its end. Daytona refuses a change that is under way or done already, for
   * example one whose answer was lost: then the state decides.
   */
  const change = async (
    ref: string,
    { verb, from, moving, goal, waitMs }: Change,
  ): Promise<ProviderResult<void>> => {
    if (!DAYTONA_REF.test(ref)) return missing
    const asked = await api.done({ method: "POST", path: path(ref, `/${verb}`) })
    if (asked.is === "missing") return missing
    if (asked.is !== "ok") {
      const now = await read(ref)
      if (now.is !== "ok" || ![...moving, ...goal].includes(now.value.state)) return asked
    }
    const waits = [...moving, ...(asked.is === "ok" ? from : [])]
    const found = await waitFor(ref, ({ state }) => !waits.includes(state), waitMs)
    if (found.is !== "ok") return found
    if (goal.includes(found.value.state)) return ok
    const why = found.value.errorReason ?? "no reason is given"
    return { is: "unknown", why: `the sandbox is ${found.value.state}: ${why}` }
  }

  const terminate = async (ref: string): Promise<ProviderResult<void>> => {
    if (!DAYTONA_REF.test(ref)) return ok
    const asked = await api.done({ method: "DELETE", path: path(ref) })
    if (asked.is === "missing") return ok
    if (asked.is !== "ok") return asked
    const found = await waitFor(ref, () => false, CHANGE_MS)
    if (found.is === "missing") return ok
    return found.is === "ok" ? { is: "unknown", why: "the sandbox is not gone yet" } : found
  }

  const volumes = daytonaVolumes(api, clock)

  const bodyOf = (spec: SandboxSpec, mounts: readonly unknown[]) => ({
    name: spec.name,
    snapshot: spec.image.id,
    env: { ...spec.environment, SANDBOX_CLOSED_PORTS: DAYTONA_PORTS.join(",") },
    labels: toCloudLabels(spec.labels),
    public: false,
    ...(options.target !== undefined && { target: options.target }),
    autoStopInterval: Math.ceil((spec.idleMs + options.idleBufferMs) / 60_000),
    autoArchiveInterval: ARCHIVE_MINUTES,
    autoDeleteInterval: DELETE_MINUTES,
    ...(mounts.length > 0 && { volumes: mounts }),
  })

  return {
    name: "daytona",
    can: {
      supportsPause: true,
      supportsAutoPause: true,
      // A sandbox returns to its former state after a snapshot.
      snapshot: "copy",
      supportsMemorySnapshot: false,
      volumes: true,
      uniqueNames: true,
      // CPU and memory are those of the snapshot: Daytona refuses a create that names both.
      limits: [],
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
      pausedLifeMs: DELETE_MINUTES * 60_000,
    },
    list: async function* (by) {
      const wanted = labelsToFind(by)
      let cursor: string | undefined
      do {
        const page = await api.call(
          {
            method: "GET",
            path: "/sandbox",
            query: { labels: JSON.stringify(wanted), limit: String(PAGE), cursor },
          },
          { read: jsonAs(daytonaPage) },
        )
        if (page.is !== "ok")
          throw new Error(page.is === "missing" ? "Daytona has no list of sandboxes" : page.why)
        for (const box of page.value.items)
          if (!isGone(box) && hasLabels(box.labels, wanted)) yield daytonaInfo(box)
        cursor = page.value.nextCursor ?? undefined
      } while (cursor !== undefined)
    },
    look: async (ref) => {
      const found = await read(ref)
      return found.is === "ok" ? { is: "ok", value: daytonaInfo(found.value) } : found
    },
    create: async (spec, limit) => {
      if (Object.keys(spec.resources).length > 0)
        return {
          is: "refused",
          why: "the limits of Daytona's sandboxes are those of their snapshot",
        }
      const mounts = await volumes.ensure(spec, limit)
      if (mounts.is !== "ok") return mounts
      const made = await createByHttp({
        api,
        call: {
          method: "POST",
          path: "/sandbox",
          json: bodyOf(spec, mounts.value),
          secrets: Object.values(spec.environment),
          limit,
          deadlineMs: START_MS,
        },
        rules: { read: jsonAs(daytonaSandbox), isMissing: isSnapshotMissing },
        image: spec.image,
        noImage: `Daytona has no snapshot ${spec.image.id}`,
        lookAtSnapshot: () => readSnapshot(spec.image.id),
      })
      if (made.is !== "ok") return made
      const ref = made.value.id
      const hasEnded = ({ state }: DaytonaSandbox) =>
        ["started", "error", "build_failed"].includes(state)
      const found = await waitFor(ref, hasEnded, START_MS, limit)
      if (found.is !== "ok")
        return found.is === "missing" ? { is: "unknown", why: "the sandbox is gone" } : found
      if (found.value.state === "started") return { is: "ok", value: { ref } }
      await terminate(ref)
      const why = found.value.errorReason ?? "no reason is given"
      return { is: "refused", why: `the sandbox did not start: ${why}` }
    },
    pause: async (ref) => {
      const paused = await change(ref, changes.pause)
      // Containers, unlike virtual machines, can only be stopped.
      return paused.is === "refused" ? change(ref, changes.stop) : paused
    },
    resume: async (ref) => {
      const started = await change(ref, changes.start)
      return started.is === "ok" ? { is: "ok", value: {} } : started
    },
    snapshot: async (ref, kind, limit) => {
      if (kind === "memory") throw new UnsupportedError("daytona", "snapshot of memory")
      const box = await read(ref)
      if (box.is !== "ok") return box
      const id = cloudSnapshotName(box.value.labels, clock.now())
      const asked = await api.done({
        method: "POST",
        path: path(ref, "/snapshot"),
        json: { name: id },
        limit,
        deadlineMs: SNAPSHOT_MS,
      })
      if (asked.is !== "ok") return asked
      const found = await waitFor(ref, ({ state }) => state !== "snapshotting", SNAPSHOT_MS, limit)
      if (found.is !== "ok") return found
      const made = await api.call(
        { method: "GET", path: `/snapshots/${id}`, limit },
        { read: jsonAs(daytonaSnapshot) },
      )
      if (made.is === "ok" && !["error", "build_failed"].includes(made.value.state))
        return { is: "ok", value: { id } }
      if (made.is === "unknown") return made
      const why = found.value.errorReason ?? "Daytona has not kept it"
      return { is: "unknown", why: `the snapshot failed: ${why}` }
    },
    listSnapshots: async function* ({ deployment }) {
      for (let page = 1, pages = 1; page <= pages; page += 1) {
        const found = await api.call(
          {
            method: "GET",
            path: "/snapshots",
            query: { page: String(page), limit: String(PAGE) },
          },
          { read: jsonAs(daytonaSnapshots) },
        )
        if (found.is !== "ok")
          throw new Error(found.is === "missing" ? "Daytona has no list of snapshots" : found.why)
        for (const { name } of found.value.items) {
          const createdAt = readCloudSnapshotName(name, deployment)
          if (createdAt !== undefined) yield { id: name, createdAt }
        }
        pages = found.value.totalPages
      }
    },
    removeSnapshot: async (snapshot) => {
      const found = await readSnapshot(snapshot)
      if (found.is !== "ok") return found.is === "missing" ? ok : found
      const removed = await api.done({ method: "DELETE", path: `/snapshots/${found.value.id}` })
      return removed.is === "missing" ? ok : removed
    },
    terminate,
    keepAlive: async (ref) =>
      DAYTONA_REF.test(ref)
        ? api.done({ method: "POST", path: path(ref, "/last-activity") })
        : missing,
    address: async (ref, port) => {
      if (!DAYTONA_REF.test(ref)) return missing
      const preview = await api.call(
        { method: "GET", path: path(ref, `/ports/${port}/preview-url`) },
        { read: jsonAs(daytonaPreview) },
      )
      if (preview.is !== "ok") return preview
      const { url, token } = preview.value
      return { is: "ok", value: { url, headers: { "x-daytona-preview-token": token } } }
    },
    publicAddress: async (ref, port) => {
      if (!DAYTONA_REF.test(ref)) return missing
      const signed = await api.call(
        {
          method: "GET",
          path: path(ref, `/ports/${port}/signed-preview-url`),
          query: { expiresInSeconds: String(SIGNED_SECONDS) },
        },
        { read: jsonAs(daytonaPreview) },
      )
      if (signed.is !== "ok") return signed
      const expiresAt = clock.now() + SIGNED_SECONDS * 1000
      return { is: "ok", value: { url: signed.value.url, headers: {}, expiresAt } }
    },
    exec: async (ref, command, limit) => {
      const found = await read(ref)
      if (found.is !== "ok") return found
      const { toolboxProxyUrl, state } = found.value
      if (state !== "started" || toolboxProxyUrl === undefined)
        return { is: "unknown", why: `the sandbox is ${state}: a command needs a running one` }
      // The key is sent there: never without encryption unless the API itself is not encrypted.
      if (!URL.canParse(toolboxProxyUrl) || new URL(toolboxProxyUrl).protocol !== protocol)
        return { is: "unknown", why: "the address of the sandbox's toolbox is not usable" }
      const toolbox = createHttpApi({ ...connection, base: toolboxProxyUrl.replace(/\/$/, "") })
      return toolbox.call(
        {
          method: "POST",
          path: `/${found.value.id}/process/execute`,
          json: {
            command: toolboxCommand({ argv: argvOf(command) }),
            ...(command.cwd !== undefined && { cwd: command.cwd }),
            ...(command.environment && { envs: command.environment }),
            timeout: EXEC_MS / 1000,
          },
          secrets: Object.values(command.environment ?? {}),
          limit,
          deadlineMs: EXEC_MS,
        },
        { read: readToolbox, isMissing: () => false },
      )
    },
    removeVolume: volumes.remove,
    health: () => api.done({ method: "GET", path: "/sandbox", query: { limit: "1" } }),
  }
}
