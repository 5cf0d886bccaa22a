/** Routes for the operator: all sandboxes, the provider, the sweep, counters and readiness. */
import type { RouteName } from "../core/routes.ts"
import { type ApiParts, type Handler, viewOf } from "./api-call.ts"

type Name = Extract<
  RouteName,
  "sandboxes" | "providers" | "sweep" | "base-snapshot" | "metrics" | "ready"
>

export const adminRoutes = ({
  store,
  provider,
  sweeper,
  metrics,
  bases,
}: ApiParts): Readonly<Record<Name, Handler>> => ({
  sandboxes: async () => ({ sandboxes: (await store.list()).map(viewOf) }),
  providers: async () => ({ providers: [{ name: provider.name, capabilities: provider.can }] }),
  sweep: ({ url }) => sweeper.sweep(url.searchParams.has("dryRun")),
  "base-snapshot": async () => {
    const { id, isNew } = await bases.make()
    return { snapshotId: id, isNew }
  },
  metrics: async () =>
    new Response(metrics.text(await store.list()), {
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
