/** Calls to the API of Kubernetes in one namespace, and commands in its pods. */
import { existsSync, readFileSync } from "node:fs"
import { z } from "zod"
import { type Clock, sleep } from "../../lib/clock.ts"
import type { ProviderResult, SandboxCommandResult } from "./contract.ts"
import { createHttpApi, type HttpAnswer, type HttpApi, type HttpCall } from "./http.ts"
import { runInPod } from "./kubernetes-exec.ts"

export interface KubernetesApiOptions {
  /** The address of the API, without a slash at its end. */
  readonly url: string
  readonly namespace: string
  /** Read for each call: the cluster renews the token. */
  readonly tokenFile: string
  /** Not used if it does not exist. */
  readonly caFile: string
  readonly clock: Clock
}

/** The kinds of objects in use, and the group of the API that has them. */
const groups = {
  secrets: "api/v1",
  pods: "api/v1",
  persistentvolumeclaims: "api/v1",
  sandboxclaims: "apis/extensions.agents.x-k8s.io/v1beta1",
  sandboxes: "apis/agents.x-k8s.io/v1beta1",
  volumesnapshots: "apis/snapshot.storage.k8s.io/v1",
} as const
export type Kind = keyof typeof groups

export interface KubernetesApi {
  readonly http: HttpApi
  readonly at: (kind: Kind, name?: string) => string
  readonly get: <Schema extends z.ZodType>(
    kind: Kind,
    name: string,
    schema: Schema,
  ) => Promise<ProviderResult<z.output<Schema>>>
  /** An object that exists is `ok`. */
  readonly add: (
    kind: Kind,
    json: unknown,
    more?: Partial<HttpCall>,
  ) => Promise<ProviderResult<void>>
  readonly patch: (
    kind: Kind,
    name: string,
    json: unknown,
    limit?: AbortSignal,
  ) => Promise<ProviderResult<void>>
  /** An object that does not exist is `ok`. */
  readonly remove: (kind: Kind, name: string) => Promise<ProviderResult<void>>
  /** All pages. Throws if one of them is missing. */
  readonly list: <Schema extends z.ZodType>(
    kind: Kind,
    labelSelector: string,
    item: Schema,
  ) => Promise<readonly z.output<Schema>[]>
  readonly run: (
    pod: string,
    argv: readonly string[],
    limit: AbortSignal,
    input?: Uint8Array,
  ) => Promise<ProviderResult<SandboxCommandResult>>
}

const PAGE = "500"

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
export const isThere = says("AlreadyExists", 409)
export const rules = {
  isMissing: says("NotFound", 404),
  /** A token that was renewed a moment ago may still be refused. */
  isUnsure: ({ status }: HttpAnswer): boolean => status === 401,
} as const

export const parsed =
  <Schema extends z.ZodType>(schema: Schema) =>
  ({ json }: HttpAnswer): z.output<Schema> | undefined =>
    schema.safeParse(json).data

/** One page of a list. */
const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    metadata: z.object({ continue: z.string().optional() }).default({}),
    items: z.array(item),
  })

export const createKubernetesApi = (options: KubernetesApiOptions): KubernetesApi => {
  const { clock, namespace } = options
  const token = () => readFileSync(options.tokenFile, "utf8").trim()
  const headers = () => ({ authorization: `Bearer ${token()}` })
  const ca = () => (existsSync(options.caFile) ? readFileSync(options.caFile, "utf8") : undefined)
  const http = createHttpApi({ base: options.url, headers, ca, secrets: () => [token()], clock })
  const at: KubernetesApi["at"] = (kind, name) =>
    `/${groups[kind]}/namespaces/${namespace}/${kind}${name === undefined ? "" : `/${name}`}`

  return {
    http,
    at,
    get: (kind, name, schema) =>
      http.call({ method: "GET", path: at(kind, name) }, { ...rules, read: parsed(schema) }),
    add: (kind, json, more = {}) =>
      http.done({ method: "POST", path: at(kind), json, ...more }, { ...rules, isDone: isThere }),
    patch: (kind, name, json, limit) =>
      http.done(
        {
          method: "PATCH",
          path: at(kind, name),
          body: JSON.stringify(json),
          headers: { "content-type": "application/merge-patch+json" },
          ...(limit && { limit }),
        },
        rules,
      ),
    remove: async (kind, name) => {
      const done = await http.done({ method: "DELETE", path: at(kind, name) }, rules)
      return done.is === "missing" ? { is: "ok", value: undefined } : done
    },
    list: async (kind, labelSelector, item) => {
      const items: z.output<typeof item>[] = []
      let next: string | undefined
      do {
        const query = { labelSelector, limit: PAGE, continue: next }
        const page = await http.call(
          { method: "GET", path: at(kind), query },
          { ...rules, read: parsed(pageOf(item)) },
        )
        if (page.is !== "ok") throw new ListError(page, namespace)
        items.push(...page.value.items)
        next = page.value.metadata.continue || undefined
      } while (next !== undefined)
      return items
    },
    run: (pod, argv, limit, input) => {
      const query = new URLSearchParams([
        ["container", "sandbox"],
        ["stdout", "true"],
        ["stderr", "true"],
        ...(input ? [["stdin", "true"] as [string, string]] : []),
        ...argv.map((word): [string, string] => ["command", word]),
      ])
      return runInPod({
        url: `${options.url.replace(/^http/, "ws")}${at("pods", pod)}/exec?${query.toString()}`,
        headers: headers(),
        ca: ca(),
        limit,
        input,
      })
    },
  }
}

/** A list that is not complete. */
class ListError extends Error {
  readonly result: Exclude<ProviderResult<never>, { is: "ok" }>
  constructor(result: Exclude<ProviderResult<never>, { is: "ok" }>, namespace: string) {
    super("why" in result ? result.why : `the namespace ${namespace} does not exist`)
    this.name = "ListError"
    this.result = result
  }
}

/** A list as a result: what has failed is in doubt. */
export const listed = async <T>(list: Promise<T>): Promise<ProviderResult<T>> => {
  try {
    return { is: "ok", value: await list }
  } catch (error) {
    if (error instanceof ListError) return error.result
    throw error
  }
}

const POLL_MS = 300

/** Reads again until the value is there, the time is over, or a read fails. */
export const poll = async <T>(
  clock: Clock,
  time: { readonly ms: number; readonly limit: AbortSignal | undefined },
  why: string,
  read: () => Promise<ProviderResult<T | undefined>>,
): Promise<ProviderResult<T>> => {
  const until = clock.now() + time.ms
  for (;;) {
    const found = await read()
    if (found.is !== "ok") return found
    if (found.value !== undefined) return { is: "ok", value: found.value }
    if (time.limit?.aborted === true || clock.now() >= until) return { is: "unknown", why }
    await sleep(clock, POLL_MS, time.limit)
  }
}
