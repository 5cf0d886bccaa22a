/** The placeholders of a workflow's texts, and the variables that a definition reads and does not set itself. Pure. */

/** `{{variables.x}}` and `{{outputs.stepId}}`. Use it with `new RegExp` and the flags of the caller. */
export const PLACEHOLDER = String.raw`\{\{\s*(variables|outputs)\.([\w.-]+)\s*\}\}`

/** Names that a caller may set, sorted. A path such as `pr.number` is the variable `pr`. */
export const variablesOf = (definition: unknown): readonly string[] => {
  const read = new Set<string>()
  const set = new Set<string>()
  collect(definition, read, set)
  return [...read].filter((name) => !set.has(name)).toSorted()
}

/** How many steps a definition has, with those inside other steps. */
export const countSteps = (definition: unknown): number =>
  Object.entries(isObject(definition) ? definition : {}).reduce((count, [key, value]) => {
    if (key === "workflow") return count + countSteps(value)
    if (!["steps", "then", "else"].includes(key) || !Array.isArray(value)) return count
    return value.reduce((sum: number, step: unknown) => sum + 1 + countSteps(step), count)
  }, 0)

const collect = (value: unknown, read: Set<string>, set: Set<string>): void => {
  if (typeof value === "string") {
    for (const [, kind, path = ""] of value.matchAll(new RegExp(PLACEHOLDER, "g")))
      if (kind === "variables") read.add(firstOf(path))
  }
  if (Array.isArray(value)) for (const one of value) collect(one, read, set)
  if (!isObject(value)) return
  const { type, outputVariable, itemVariable, over, condition, workflow, ...rest } = value
  if (type === "bash" && typeof outputVariable === "string") set.add(outputVariable)
  if (type === "loop") set.add(typeof itemVariable === "string" ? itemVariable : "item")
  if (type === "conditional" && isObject(condition)) addNamed(condition["variable"], read)
  if (type === "loop") addNamed(over, read)
  collect([over, condition], read, set)
  // A subworkflow has variables of its own.
  if (type !== "subworkflow") collect(workflow, read, set)
  collect(Object.values(rest), read, set)
}

/** `x` or `variables.x`, in a condition or a loop. */
const addNamed = (name: unknown, read: Set<string>): void => {
  if (typeof name !== "string" || name.includes("{{") || name.startsWith("outputs.")) return
  read.add(firstOf(name.replace(/^variables\./, "")))
}

const firstOf = (path: string): string => path.split(".", 1)[0] ?? path

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
