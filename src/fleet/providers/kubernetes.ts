/**
 * Sandboxes as pods of Kubernetes, over its REST API. A sandbox is a Secret; a pause deletes its Pod and keeps its volume,
 * and a resume makes the Pod again. See kubernetes-objects.ts.
 */
import { existsSync, readFileSync } from "node:fs"
import type { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import {
  type ProviderResult,
  type SandboxInfo,
  type SandboxProvider,
  UnsupportedError,
} from "./contract.ts"
import {
  commandIn,
  commandWithEnvironment,
  environmentScript,
  killCommand,
} from "./environment-file.ts"
import { createHttpApi, type HttpAnswer, type HttpCall } from "./http.ts"
import { runInPod } from "./kubernetes-exec.ts"
import {
  deploymentOf,
  filesClaimOf,
  infoOf,
  isObjectName,
  label,
  labelValue,
  ownedManifest,
  pageOf,
  podSchema,
  type PodOptions,
  type SandboxPod,
  type SandboxSecret,
  secretOf,
  secretSchema,
  volumeClaimName,
} from "./kubernetes-objects.ts"

export interface KubernetesProviderOptions extends PodOptions {
  /** The address of the API, without a slash at its end. */
  readonly url: string
  readonly namespace: string
  /** Read for each call: the cluster renews the token. */
  readonly tokenFile: string
  /** Not used if it does not exist. */
  readonly caFile: string
  readonly clock: Clock
  /** How long the end of a command that has reached its limit may take. */
  readonly killMs?: number
}

const PAGE = "500"
/** A pod that is being deleted is gone after its grace period at the latest. */
const AGAIN_MS = 2000

const ok = { is: "ok", value: undefined } as const
const missing = { is: "missing" } as const

/** The words of the API itself. A proxy that does not know the path answers 404, too. */
const says =
  (reason: string, status: number) =>
  (answer: HttpAnswer): boolean => {
    const { json } = answer
    return (
      answer.status === status &&
      typeof json === "object" &&
      json !== null &&
      "reason" in json &&
      json.reason === reason
    )
  }
const isMissing = says("NotFound", 404)
const isThere = says("AlreadyExists", 409)
/** A token that was renewed a moment ago may still be refused. */
const isUnsure = ({ status }: HttpAnswer): boolean => status === 401
const rules = { isMissing, isUnsure } as const

const parsed =
  <Schema extends z.ZodType>(schema: Schema) =>
  ({ json }: HttpAnswer): z.output<Schema> | undefined =>
    schema.safeParse(json).data

export const createKubernetesProvider = (options: KubernetesProviderOptions): SandboxProvider => {
  const { clock, digest, namespace, killMs = 5000 } = options
  const token = () => readFileSync(options.tokenFile, "utf8").trim()
  const headers = () => ({ authorization: `Bearer ${token()}` })
  const ca = () => (existsSync(options.caFile) ? readFileSync(options.caFile, "utf8") : undefined)
  const http = createHttpApi({ base: options.url, headers, ca, secrets: () => [token()], clock })
  const at = (kind: string, name?: string) =>
    `/api/v1/namespaces/${namespace}/${kind}${name === undefined ? "" : `/${name}`}`

  const readSecret = async (ref: string): Promise<ProviderResult<SandboxSecret>> => {
    if (!isObjectName(ref)) return missing
    const found = await http.call(
      { method: "GET", path: at("secrets", ref) },
      { ...rules, read: parsed(secretSchema) },
    )
    // A secret that is being deleted does not come back.
    return found.is === "ok" && found.value.metadata.deletionTimestamp !== undefined
      ? missing
      : found
  }

  /** Undefined: there is no pod at the moment. */
  const readPod = async (ref: string): Promise<ProviderResult<SandboxPod | undefined>> => {
    const found = await http.call(
      { method: "GET", path: at("pods", ref) },
      { ...rules, read: parsed(podSchema) },
    )
    return found.is === "missing" ? { is: "ok", value: undefined } : found
  }

  const look = async (
    ref: string,
  ): Promise<
    ProviderResult<{ readonly info: SandboxInfo; readonly pod: SandboxPod | undefined }>
  > => {
    const secret = await readSecret(ref)
    if (secret.is !== "ok") return secret
    const pod = await readPod(ref)
    return pod.is === "ok"
      ? { is: "ok", value: { info: infoOf(secret.value, pod.value), pod: pod.value } }
      : pod
  }

  /** An object that does not exist is `ok`. */
  const remove = async (kind: string, name: string): Promise<ProviderResult<void>> => {
    const done = await http.done({ method: "DELETE", path: at(kind, name) }, rules)
    return done.is === "missing" ? ok : done
  }

  const add = (kind: string, json: unknown, more: Partial<HttpCall> = {}) =>
    http.done({ method: "POST", path: at(kind), json, ...more }, { ...rules, isDone: isThere })

  /** Makes what a start needs and does not exist. Also finishes a create that was given up. */
  const start = async (
    ref: string,
    secret: SandboxSecret,
    limit?: AbortSignal,
  ): Promise<ProviderResult<void>> => {
    const { claims, pod } = ownedManifest(secret)
    const more = limit ? { limit } : {}
    for (const claim of claims) {
      const made = await add("persistentvolumeclaims", claim, more)
      if (made.is !== "ok") return made
    }
    const call = { method: "POST", path: at("pods"), json: pod, ...more } as const
    const answer = await http.send(call)
    if (answer.status === undefined || !isThere(answer)) {
      const made = http.resultOf(call, answer, { ...rules, read: () => true })
      return made.is === "ok" ? ok : made
    }
    const found = await readPod(ref)
    if (found.is !== "ok") return found
    const state = infoOf(secret, found.value).state
    if (state === "running" || state === "starting") return ok
    // It has ended, or is being deleted: its name is free again in a moment.
    const removed = await remove("pods", ref)
    if (removed.is !== "ok") return removed
    return { is: "unknown", why: "the former pod is being deleted", afterMs: AGAIN_MS }
  }

  const listAll = async <Schema extends z.ZodType>(
    kind: string,
    labelSelector: string,
    item: Schema,
  ): Promise<readonly z.output<Schema>[]> => {
    const items: z.output<Schema>[] = []
    let next: string | undefined
    do {
      const page = await http.call(
        {
          method: "GET",
          path: at(kind),
          query: { labelSelector, limit: PAGE, continue: next },
        },
        { ...rules, read: parsed(pageOf(item)) },
      )
      if (page.is !== "ok")
        throw new Error("why" in page ? page.why : `the namespace ${namespace} does not exist`)
      items.push(...page.value.items)
      next = page.value.metadata.continue || undefined
    } while (next !== undefined)
    return items
  }

  const run = (ref: string, argv: readonly string[], limit: AbortSignal) => {
    const query = new URLSearchParams([
      ["container", "sandbox"],
      ["stdout", "true"],
      ["stderr", "true"],
      ...argv.map((word): [string, string] => ["command", word]),
    ])
    return runInPod({
      url: `${options.url.replace(/^http/, "ws")}${at("pods", ref)}/exec?${query.toString()}`,
      headers: headers(),
      ca: ca(),
      limit,
    })
  }

  return {
    name: "kubernetes",
    can: {
      // Without its memory: the runner starts again with the files of the volume.
      supportsPause: true,
      supportsAutoPause: false,
      snapshot: "none",
      supportsMemorySnapshot: false,
      volumes: true,
      uniqueNames: true,
      limits: true,
      exec: true,
      startsRunner: true,
      maxLifeMs: undefined,
      snapshotLifeMs: undefined,
    },
    list: async function* ({ deployment, session }) {
      const selector = [
        `${label("deployment")}=${labelValue(deployment, digest)}`,
        ...(session === undefined ? [] : [`${label("session")}=${labelValue(session, digest)}`]),
      ].join(",")
      const secrets = await listAll("secrets", selector, secretSchema)
      const pods = await listAll("pods", selector, podSchema)
      const byName = new Map(pods.map((pod) => [pod.metadata.name, pod]))
      for (const secret of secrets) {
        if (secret.metadata.deletionTimestamp !== undefined) continue
        const info = infoOf(secret, byName.get(secret.metadata.name))
        if (deploymentOf(secret) !== deployment) continue
        if (session === undefined || info.session === session) yield info
      }
    },
    look: async (ref) => {
      const found = await look(ref)
      return found.is === "ok" ? { is: "ok", value: found.value.info } : found
    },
    create: async (spec, limit) => {
      if (!isObjectName(spec.name))
        return { is: "refused", why: `${spec.name} is not a pod's name` }
      if (spec.image.kind !== "image") return missing
      if (spec.resources.pids !== undefined)
        return { is: "refused", why: "Kubernetes limits processes per node, not per sandbox" }
      const script = environmentScript(spec.environment)
      if (script === undefined)
        return { is: "refused", why: "a variable of the sandbox has an unusable name or value" }
      const secret = await http.call(
        {
          method: "POST",
          path: at("secrets"),
          json: secretOf(spec, script, options),
          limit,
          secrets: Object.values(spec.environment),
        },
        { ...rules, read: parsed(secretSchema) },
      )
      if (secret.is === "missing")
        return { is: "refused", why: `the namespace ${namespace} does not exist` }
      if (secret.is !== "ok") return secret
      const started = await start(spec.name, secret.value, limit)
      if (started.is === "ok") return { is: "ok", value: { ref: spec.name } }
      if (started.is !== "refused")
        return started.is === "missing"
          ? { is: "unknown", why: `the namespace ${namespace} is gone` }
          : started
      // A refusal leaves nothing behind.
      const removed = await remove("secrets", spec.name)
      return removed.is === "ok" ? started : { is: "unknown", why: started.why }
    },
    pause: async (ref) => {
      const secret = await readSecret(ref)
      return secret.is === "ok" ? remove("pods", ref) : secret
    },
    resume: async (ref) => {
      const secret = await readSecret(ref)
      if (secret.is !== "ok") return secret
      const started = await start(ref, secret.value)
      return started.is === "ok" ? { is: "ok", value: {} } : started
    },
    snapshot: () => Promise.reject(new UnsupportedError("kubernetes", "snapshots")),
    removeSnapshot: async () => ok,
    terminate: async (ref) => {
      if (!isObjectName(ref)) return ok
      // The Secret goes last: as long as it is there, the end is tried again.
      for (const [kind, name] of [
        ["pods", ref],
        ["persistentvolumeclaims", filesClaimOf(ref)],
        ["secrets", ref],
      ] as const) {
        const removed = await remove(kind, name)
        if (removed.is !== "ok") return removed
      }
      return ok
    },
    keepAlive: async (ref) => {
      const secret = await readSecret(ref)
      return secret.is === "ok" ? ok : secret
    },
    address: async (ref, port) => {
      const found = await look(ref)
      if (found.is !== "ok") return found
      const { info, pod } = found.value
      const ip = info.state === "running" ? pod?.status.podIP : undefined
      if (ip === undefined) return { is: "refused", why: `the sandbox is ${info.state}` }
      const host = ip.includes(":") ? `[${ip}]` : ip
      return { is: "ok", value: { url: `http://${host}:${port}`, headers: {} } }
    },
    exec: async (ref, command, limit) => {
      const secret = await readSecret(ref)
      if (secret.is !== "ok") return secret
      // The runner ends on this signal, and the cluster starts its container again.
      if (command.argv[0] === "/start.sh") return run(ref, ["/bin/sh", "-c", "kill -TERM 1"], limit)
      if (Object.keys(command.environment ?? {}).length > 0)
        return {
          is: "refused",
          why: "Kubernetes passes variables to a command only on its command line, where the agent reads them",
        }
      const mark = `command-${crypto.randomUUID()}`
      const words = command.cwd === undefined ? command.argv : commandIn(command.cwd, command.argv)
      const result = await run(ref, commandWithEnvironment(mark, words), limit)
      if (limit.aborted) await run(ref, killCommand(mark), AbortSignal.timeout(killMs))
      return result
    },
    removeVolume: (name) => remove("persistentvolumeclaims", volumeClaimName(name, digest)),
    health: async () => {
      const found = await http.done(
        { method: "GET", path: at("secrets"), query: { limit: "1" } },
        rules,
      )
      return found.is === "missing"
        ? { is: "refused", why: `the namespace ${namespace} does not exist` }
        : found
    },
  }
}
