/** Counts the gateway's requests and bytes, and renders them with the metrics of other components as Prometheus text. */

import { type Metric, renderMetric } from "../../lib/prometheus.ts"

interface RouteCount {
  readonly byStatus: Map<string, number>
  bytesIn: number
  bytesOut: number
}

export interface Metrics {
  readonly request: (route: string, status: number, bytesIn: number, bytesOut: number) => void
  readonly render: (others: readonly Metric[]) => string
}

export const createMetrics = (): Metrics => {
  const routes = new Map<string, RouteCount>()
  return {
    request: (route, status, bytesIn, bytesOut) => {
      let count = routes.get(route)
      if (count === undefined) {
        count = { byStatus: new Map(), bytesIn: 0, bytesOut: 0 }
        routes.set(route, count)
      }
      const group = status === 0 ? "aborted" : String(status)
      count.byStatus.set(group, (count.byStatus.get(group) ?? 0) + 1)
      count.bytesIn += bytesIn
      count.bytesOut += bytesOut
    },
    render: (others) => [...requestMetrics(routes), ...others].map(renderMetric).join(""),
  }
}

const requestMetrics = (routes: ReadonlyMap<string, RouteCount>): readonly Metric[] => {
  const perRoute = (direction: "in" | "out", read: (count: RouteCount) => number) =>
    [...routes].map(([route, count]) => ({ value: read(count), labels: { route, direction } }))
  return [
    {
      name: "sandpiper_http_requests_total",
      help: "Requests, by route and status.",
      type: "counter",
      values: [...routes].flatMap(([route, { byStatus }]) =>
        [...byStatus].map(([status, value]) => ({ value, labels: { route, status } })),
      ),
    },
    {
      name: "sandpiper_http_bytes_total",
      help: "Bytes from and to clients, by route, counted at the end of each request.",
      type: "counter",
      values: [
        ...perRoute("in", ({ bytesIn }) => bytesIn),
        ...perRoute("out", ({ bytesOut }) => bytesOut),
      ],
    },
  ]
}
