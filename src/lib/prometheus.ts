/** Metrics in the text form of Prometheus. */

export type Labels = Readonly<Record<string, string>>

export interface Metric {
  readonly name: string
  readonly help: string
  readonly type: "counter" | "gauge" | "histogram"
  readonly values: readonly {
    readonly value: number
    readonly labels?: Labels
    /** Of a histogram's value: `_bucket`, `_sum` or `_count`. */
    readonly suffix?: string
  }[]
}

/** A value's name with its labels. */
export const seriesOf = (name: string, labels: Labels = {}): string => {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text)}"`)
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`
}

export const renderMetric = ({ name, help, type, values }: Metric): string => {
  const lines = values.map(
    ({ value, labels, suffix = "" }) => `${seriesOf(`${name}${suffix}`, labels)} ${value}\n`,
  )
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`
}

const escaped = (text: string): string =>
  text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")
