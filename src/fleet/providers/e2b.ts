/**
 * Sandboxes of E2B, over its REST API. A pause keeps the memory, and E2B pauses a sandbox at the end of its time instead of
 * deleting it. Names are not unique there: a doubled create is found by its labels.
 */
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import {
  cloudSnapshotName,
  hasLabels,
  labelsToFind,
  toCloudLabels,
  type IdleBuffer,
} from "./cloud-labels.ts"
import { type ProviderResult, type SandboxProvider, UnsupportedError } from "./contract.ts"
import { createByHttp } from "./create-not-found.ts"
import {
  createdSchema,
  type Detail,
  detailSchema,
  ID,
  infoOf,
  listedSchema,
  metadataQuery,
} from "./e2b-sandboxes.ts"
import { e2bSnapshots, SNAPSHOT_ID } from "./e2b-snapshots.ts"
import { e2bVolumes } from "./e2b-volumes.ts"
import { ENVD_PORT, runInSandbox } from "./envd.ts"
import { jsonAs } from "./cloud-json.ts"
import { createHttpApi, type HttpApi } from "./http.ts"
import { argvOf, startRunner } from "./start-runner.ts"

export interface E2bOptions extends IdleBuffer {
  readonly apiKey: string
  readonly apiUrl: string
  /** The domain of the sandboxes: a port of one is reached at `<port>-<id>.<domain>`. */
  readonly domain: string
  /** One address for all sandboxes, which tells them apart by headers. Absent: the domain. */
  readonly sandboxUrl?: string | undefined
  readonly clock: Clock
}

const CREATE_MS = 2 * 60_000
const START_MS = 60_000
const EXEC_MS = 10 * 60_000
const SNAPSHOT_MS = 10 * 60_000
const PAUSE_MS = 2 * 60_000
const PAGE = 100

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const

const timeoutOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1000))

export const createE2bProvider = (options: E2bOptions): SandboxProvider => {
  const { apiKey, clock } = options
  const api = createHttpApi({
    base: options.apiUrl,
    headers: () => ({ "x-api-key": apiKey }),
    secrets: () => [apiKey],
    clock,
  })
  const path = (ref: string, verb = "") => `/sandboxes/${ref}${verb}`

  const detailOf = (ref: string): Promise<ProviderResult<Detail>> =>
    ID.test(ref)
      ? api.call({ method: "GET", path: path(ref) }, { read: jsonAs(detailSchema) })
      : Promise.resolve(missing)

  const reach = (box: Detail, port: number) => ({
    url: options.sandboxUrl ?? `https://${port}-${box.sandboxID}.${box.domain ?? options.domain}`,
    headers: { "e2b-sandbox-id": box.sandboxID, "e2b-sandbox-port": String(port) },
  })

  const envdOf = (box: Detail): HttpApi => {
    const { url, headers } = reach(box, ENVD_PORT)
    const token = box.envdAccessToken
    return createHttpApi({
      base: url,
      headers: () => ({ ...headers, ...(token !== undefined && { "x-access-token": token }) }),
      secrets: () => [apiKey, ...(token === undefined ? [] : [token])],
      clock,
    })
  }

  const volumes = e2bVolumes(api)
  const snapshots = e2bSnapshots(api)

  /** The processes of a template started before this sandbox and do not know its environment, so the runner starts now. */
  const start = async (ref: string, limit: AbortSignal): Promise<ProviderResult<void>> => {
    const detail = await detailOf(ref)
    if (detail.is !== "ok") return detail
    const command = { argv: startRunner }
    const result = await runInSandbox(envdOf(detail.value), command, limit, START_MS)
    if (result.is !== "ok" || result.value.exitCode === 0) return result.is === "ok" ? ok : result
    return { is: "unknown", why: `the runner did not start: ${result.value.stderr.slice(0, 500)}` }
  }

  const terminate = async (ref: string): Promise<ProviderResult<void>> => {
    if (!ID.test(ref)) return ok
    const result = await api.done({ method: "DELETE", path: path(ref) })
    return result.is === "missing" ? ok : result
  }

  const pause = async (ref: string): Promise<ProviderResult<void>> => {
    if (!ID.test(ref)) return missing
    const result = await api.done({
      method: "POST",
      path: path(ref, "/pause"),
      json: {},
      deadlineMs: PAUSE_MS,
    })
    if (result.is === "ok" || result.is === "missing") return result
    // "Conflict" is the answer for a paused sandbox, and for one that changes at this moment.
    const detail = await detailOf(ref)
    return detail.is === "ok" && detail.value.state === "paused" ? ok : result
  }

  return {
    name: "e2b",
    can: {
      supportsPause: true,
      supportsAutoPause: true,
      snapshot: "pause",
      supportsMemorySnapshot: false,
      volumes: true,
      uniqueNames: false,
      // CPU and memory are those of the template, not of a sandbox.
      limits: [],
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* (by) {
      const wanted = labelsToFind(by)
      let next: string | undefined
      do {
        const answer = await api.send({
          method: "GET",
          path: "/v2/sandboxes",
          query: {
            metadata: metadataQuery(wanted),
            state: "running,paused",
            limit: String(PAGE),
            nextToken: next,
          },
        })
        const call = { method: "GET", path: "/v2/sandboxes" } as const
        const page = api.resultOf(call, answer, { read: jsonAs(z.array(listedSchema)) })
        if (page.is !== "ok")
          throw new Error(page.is === "missing" ? "E2B has no list of sandboxes" : page.why)
        // A sandbox that the filter should have left out is not ours.
        for (const box of page.value) if (hasLabels(box.metadata, wanted)) yield infoOf(box)
        next =
          answer.status === undefined ? undefined : answer.headers.get("x-next-token") || undefined
      } while (next !== undefined)
    },
    look: async (ref) => {
      const detail = await detailOf(ref)
      return detail.is === "ok" ? { is: "ok", value: infoOf(detail.value) } : detail
    },
    create: async (spec, limit) => {
      if (Object.keys(spec.resources).length > 0)
        return { is: "refused", why: "the limits of E2B's sandboxes are those of their template" }
      const mounts = await volumes.ensure(spec)
      if (mounts.is !== "ok") return mounts
      const made = await createByHttp({
        api,
        call: {
          method: "POST",
          path: "/v2/sandboxes",
          json: {
            templateID: spec.image.id,
            metadata: toCloudLabels(spec.labels),
            envVars: spec.environment,
            timeout: timeoutOf(spec.idleMs + options.idleBufferMs),
            autoPause: true,
            ...(mounts.value.length > 0 && { volumeMounts: mounts.value }),
          },
          secrets: Object.values(spec.environment),
          limit,
          deadlineMs: CREATE_MS,
        },
        rules: { read: jsonAs(createdSchema) },
        image: spec.image,
        noImage: `E2B has no template ${spec.image.id}`,
        lookAtSnapshot: () => snapshots.look(spec.image.id),
      })
      if (made.is !== "ok") return made
      const ref = made.value.sandboxID
      const started = await start(ref, limit)
      if (started.is === "ok") return { is: "ok", value: { ref } }
      // Nothing has run in it. If it cannot be ended now, it is found by its labels.
      await terminate(ref)
      const why = started.is === "missing" ? "it is gone" : started.why
      const afterMs = started.is === "unknown" ? started.afterMs : undefined
      return {
        is: "unknown",
        why: `the sandbox was created, but its runner did not start: ${why}`,
        ...(afterMs !== undefined && { afterMs }),
      }
    },
    pause,
    resume: async (ref, spec) => {
      if (!ID.test(ref)) return missing
      const result = await api.done({
        method: "POST",
        path: `/v2${path(ref, "/connect")}`,
        json: { timeout: timeoutOf(spec.idleMs + options.idleBufferMs) },
        deadlineMs: CREATE_MS,
      })
      return result.is === "ok" ? { is: "ok", value: {} } : result
    },
    snapshot: async (ref, kind, limit) => {
      if (kind === "memory") throw new UnsupportedError("e2b", "snapshot of memory")
      const detail = await detailOf(ref)
      if (detail.is !== "ok") return detail
      const made = await api.call(
        {
          method: "POST",
          path: path(ref, "/snapshots"),
          json: { name: cloudSnapshotName(detail.value.metadata, options.clock.now()) },
          limit,
          deadlineMs: SNAPSHOT_MS,
        },
        {
          read: jsonAs(z.object({ snapshotID: z.string().regex(SNAPSHOT_ID) })),
        },
      )
      if (made.is !== "ok") return made
      const id = made.value.snapshotID
      const paused = await pause(ref)
      if (paused.is === "ok") return { is: "ok", value: { id } }
      // The next attempt makes another snapshot.
      await snapshots.remove(id)
      return paused
    },
    listSnapshots: ({ deployment }) => snapshots.list(deployment),
    removeSnapshot: snapshots.remove,
    terminate,
    keepAlive: async (ref, ms) => {
      if (!ID.test(ref)) return missing
      const result = await api.done({
        method: "POST",
        path: path(ref, "/timeout"),
        json: { timeout: timeoutOf(ms) },
      })
      if (result.is !== "missing") return result
      // It is the answer for a paused sandbox, too.
      const detail = await detailOf(ref)
      if (detail.is !== "ok") return detail
      return { is: "unknown", why: `the sandbox is ${detail.value.state}` }
    },
    address: async (ref, port) => {
      const detail = await detailOf(ref)
      if (detail.is !== "ok") return detail
      const { url, headers } = reach(detail.value, port)
      return {
        is: "ok",
        value: { url, headers: options.sandboxUrl === undefined ? {} : headers },
      }
    },
    exec: async (ref, command, limit) => {
      const detail = await detailOf(ref)
      if (detail.is !== "ok") return detail
      if (detail.value.state !== "running")
        return { is: "unknown", why: "the sandbox is paused: resume it before a command" }
      return runInSandbox(
        envdOf(detail.value),
        { ...command, argv: argvOf(command) },
        limit,
        EXEC_MS,
      )
    },
    removeVolume: volumes.remove,
    health: () => api.done({ method: "GET", path: "/v2/sandboxes", query: { limit: "1" } }),
  }
}
