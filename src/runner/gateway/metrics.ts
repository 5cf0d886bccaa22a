/** Counts what goes through the gateway, and writes it and the numbers of other parts as Prometheus text. */

/** A number that another part keeps; `labels` tells several of one name apart. */
export interface Gauge {
  readonly name: string
  readonly help: string
  readonly type: "counter" | "gauge"
  readonly values: readonly {
    readonly value: number
    readonly labels?: Readonly<Record<string, string>>
  }[]
}

interface RouteCount {
  readonly byStatus: Map<string, number>
  bytesIn: number
  bytesOut: number
}

export interface Metrics {
  readonly request: (route: string, status: number, bytesIn: number, bytesOut: number) => void
  readonly render: (others: readonly Gauge[]) => string
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
    render: (others) => [...own(routes), ...others].map(renderGauge).join(""),
  }
}

const own = (routes: ReadonlyMap<string, RouteCount>): readonly Gauge[] => {
  const perRoute = (direction: "in" | "out", read: (count: RouteCount) => number) =>
    [...routes].map(([route, count]) => ({ value: read(count), labels: { route, direction } }))
  return [
    {
      name: "sandpiper_http_requests_total",
      help: "Requests answered, by route and status.",
      type: "counter",
      values: [...routes].flatMap(([route, { byStatus }]) =>
        [...byStatus].map(([status, value]) => ({ value, labels: { route, status } })),
      ),
    },
    {
      name: "sandpiper_http_bytes_total",
      help: "Bytes from and to clients, by route, when the request was over.",
      type: "counter",
      values: [
        ...perRoute("in", ({ bytesIn }) => bytesIn),
        ...perRoute("out", ({ bytesOut }) => bytesOut),
      ],
    },
  ]
}

const renderGauge = ({ name, help, type, values }: Gauge): string => {
  const lines = values.map(({ value, labels = {} }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escapeLabel(text)}"`)
    return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`
}

const escapeLabel = (text: string): string =>
  text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")
