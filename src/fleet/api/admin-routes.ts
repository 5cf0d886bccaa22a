/** Routes for the operator: all sandboxes, the provider, the sweep. Counters and readiness are also for programs that watch. */
import { systemClock, within } from "../../lib/clock.ts"
import type { RouteName } from "../core/routes.ts"
import { ApiError, type ApiParts, flagOf, type Handler, viewOf } from "./api-call.ts"

type Name = Extract<
  RouteName,
  "sandboxes" | "providers" | "sweep" | "base-snapshot" | "metrics" | "ready"
>

const PAGE = 500
/** A probe of an orchestrator waits for some seconds only. */
const READY_MS = 5000
const RETRY_SECONDS = 5

/** Undefined: from the beginning. The text is what an answer gave as `next`. */
const cursorOf = (text: string | null) => {
  if (text === null) return undefined
  const [, createdAt, id] = /^(\d{1,15}):(.+)$/s.exec(text) ?? []
  if (createdAt === undefined || id === undefined)
    throw new ApiError(400, "bad-request", "after: expected the `next` of an earlier answer")
  return { createdAt: Number(createdAt), id }
}

const limitOf = (text: string | null): number => {
  const limit = text === null ? PAGE : Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE) return limit
  throw new ApiError(400, "bad-request", `limit: expected a number from 1 to ${PAGE}`)
}

/** False also if the work fails or takes too long. */
const answers = async (work: Promise<boolean>): Promise<boolean> => {
  try {
    return (await within(systemClock, READY_MS, work)) && (await work)
  } catch {
    return false
  }
}

export const adminRoutes = ({
  store,
  provider,
  sweeper,
  metrics,
  bases,
}: ApiParts): Readonly<Record<Name, Handler>> => ({
  sandboxes: async ({ url: { searchParams } }) => {
    const limit = limitOf(searchParams.get("limit"))
    // One more than asked for: whether there is another page.
    const rows = await store.page(cursorOf(searchParams.get("after")), limit + 1)
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    return {
      sandboxes: page.map(viewOf),
      ...(rows.length > limit && last && { next: `${last.createdAt}:${last.id}` }),
    }
  },
  providers: async () => ({ providers: [{ name: provider.name, capabilities: provider.can }] }),
  sweep: async ({ url }) => sweeper.sweep(flagOf(url, "dryRun")),
  "base-snapshot": async ({ url }) => {
    const { id, isNew } = await bases.make(flagOf(url, "again"))
    return { snapshotId: id, isNew }
  },
  metrics: async () =>
    new Response(metrics.text(await store.phases()), {
      headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
    }),
  ready: async () => {
    const [providerAnswers, databaseAnswers] = await Promise.all([
      answers(provider.health().then(({ is }) => is === "ok")),
      answers(store.due(0, 1).then(() => true)),
    ])
    const isReady = providerAnswers && databaseAnswers
    return Response.json(
      { ready: isReady, provider: provider.name, providerAnswers, databaseAnswers },
      isReady ? {} : { status: 503, headers: { "retry-after": String(RETRY_SECONDS) } },
    )
  },
})
