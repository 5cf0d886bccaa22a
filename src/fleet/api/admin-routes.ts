/** Routes for the operator: all sandboxes, the provider, the sweep, counters and readiness. */
import type { RouteName } from "../core/routes.ts"
import { ApiError, type ApiParts, type Handler, viewOf } from "./api-call.ts"

type Name = Extract<
  RouteName,
  "sandboxes" | "providers" | "sweep" | "base-snapshot" | "metrics" | "ready"
>

const PAGE = 500

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
  sweep: ({ url }) => sweeper.sweep(url.searchParams.has("dryRun")),
  "base-snapshot": async () => {
    const { id, isNew } = await bases.make()
    return { snapshotId: id, isNew }
  },
  metrics: async () =>
    new Response(metrics.text(await store.phases()), {
      headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
    }),
  ready: async () => {
    const health = await provider.health().catch(() => ({ is: "unknown" }) as const)
    const isReady = health.is === "ok"
    return Response.json(
      { ready: isReady, provider: provider.name, providerAnswers: isReady },
      { status: isReady ? 200 : 503 },
    )
  },
})
