/** Counters of the fleet in the text form of Prometheus. They begin at zero with every process. */
import type { Answer, Call } from "./core/life.ts"
import type { PhaseCount } from "./store/ports.ts"
import { type Labels, type Metric, renderMetric, seriesOf } from "../lib/prometheus.ts"

const counters = {
  creates_total: "Sandboxes created.",
  resumes_total: "Sandboxes resumed.",
  session_replacements_total: "Agent sessions that were replaced by new ones.",
  health_retries_total: "Looks at sandboxes whose runner was not connected.",
  prompts_total: "Prompts that ended, by result.",
  prompt_retries_total: "Prompts that were given to a runner again.",
  snapshots_total: "Snapshots, by outcome.",
  strays_total: "Sandboxes ended because no session knew them.",
  disk_stops_total: "Sandboxes that were stopped because of their disk, by what was done.",
  pool_claims_total: "Sessions that asked the warm pool for a sandbox, by outcome.",
  seconds_total: "Seconds that sandboxes ran, by provider and tenant.",
} as const

export type CounterName = keyof typeof counters

export interface Metrics {
  readonly add: (name: CounterName, labels?: Labels, amount?: number) => void
  /** A call to the provider was answered. */
  readonly called: (provider: string, call: Call["do"], answer: Answer["is"], ms: number) => void
  /** All counters, and the sandboxes that exist now. */
  readonly text: (phases: readonly PhaseCount[]) => string
}

/** Upper bounds of the histogram of calls, in seconds. */
const BOUNDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300] as const

interface Counted {
  readonly name: CounterName
  readonly labels: Labels
  value: number
}

interface Histogram {
  readonly labels: Labels
  readonly buckets: number[]
  sum: number
  count: number
}

export const createMetrics = (): Metrics => {
  const values = new Map<string, Counted>()
  const calls = new Map<string, Histogram>()

  const add: Metrics["add"] = (name, labels = {}, amount = 1) => {
    const key = seriesOf(name, labels)
    const known = values.get(key) ?? { name, labels, value: 0 }
    known.value += amount
    values.set(key, known)
  }

  const observe = (labels: Labels, seconds: number) => {
    const key = JSON.stringify(labels)
    const known = calls.get(key) ?? { labels, buckets: BOUNDS.map(() => 0), sum: 0, count: 0 }
    known.sum += seconds
    known.count += 1
    for (const [index, bound] of BOUNDS.entries())
      if (seconds <= bound) known.buckets[index] = (known.buckets[index] ?? 0) + 1
    calls.set(key, known)
  }

  return {
    add,
    called: (provider, call, answer, ms) => {
      observe({ provider, call }, ms / 1000)
      if (call === "create" && answer === "ok") add("creates_total", { provider })
      if (call === "resume" && answer === "ok") add("resumes_total", { provider })
      if (call === "snapshot")
        add("snapshots_total", { provider, outcome: answer === "ok" ? "ok" : "failed" })
    },
    text: (phases) =>
      [sandboxes(phases), ...counts([...values.values()]), durations([...calls.values()])]
        .map((metric) => renderMetric({ ...metric, name: `sandpiper_${metric.name}` }))
        .join(""),
  }
}

const sandboxes = (phases: readonly PhaseCount[]): Metric => ({
  name: "sandboxes",
  help: "Sessions that have not ended, by the phase of their sandbox.",
  type: "gauge",
  values: phases.map(({ provider, phase, count }) => ({
    value: count,
    labels: { provider, phase },
  })),
})

const counts = (known: readonly Counted[]): readonly Metric[] =>
  Object.entries(counters).map(([name, help]) => {
    const values = known.filter((one) => one.name === name)
    return { name, help, type: "counter", values: values.length === 0 ? [{ value: 0 }] : values }
  })

const durations = (known: readonly Histogram[]): Metric => ({
  name: "call_seconds",
  help: "Duration of calls to the sandbox provider.",
  type: "histogram",
  values: known.flatMap(({ labels, buckets, sum, count }) => [
    ...BOUNDS.map((bound, index) => ({
      suffix: "_bucket",
      labels: { ...labels, le: String(bound) },
      value: buckets[index] ?? 0,
    })),
    { suffix: "_bucket", labels: { ...labels, le: "+Inf" }, value: count },
    { suffix: "_sum", labels, value: sum },
    { suffix: "_count", labels, value: count },
  ]),
})
