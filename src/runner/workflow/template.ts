/** Fills `{{variables.x}}` and `{{outputs.stepId}}` in a step's texts from the scope. Pure. */
import { PLACEHOLDER } from "../../wire/workflow/variables.ts"

export interface Scope {
  readonly variables: Record<string, unknown>
  readonly outputs: Record<string, unknown>
}

const ANY = new RegExp(PLACEHOLDER, "g")
const ONLY = new RegExp(`^${PLACEHOLDER}$`)

/** One pass: placeholders inside filled-in values are not replaced. */
export const fillText = (text: string, scope: Scope): string =>
  text.replaceAll(ANY, (_all, kind: keyof Scope, path: string) => asText(lookUp(scope, kind, path)))

/** Fills every text within a value. A text that is exactly one placeholder becomes the value itself, not its text. */
export const fill = (value: unknown, scope: Scope): unknown => {
  if (typeof value === "string") {
    const [, kind, path] = ONLY.exec(value) ?? []
    return kind === undefined || path === undefined
      ? fillText(value, scope)
      : lookUp(scope, kind === "outputs" ? "outputs" : "variables", path)
  }
  if (Array.isArray(value)) return value.map((one) => fill(one, scope))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fill(one, scope)]))
}

/** Resolves a name in a condition or loop: `x`, `variables.x` or `outputs.x`. */
export const variableNamed = (name: string, scope: Scope): unknown => {
  const [, kind, path] = /^(variables|outputs)\.(.+)$/.exec(name) ?? []
  if (path === undefined) return lookUp(scope, "variables", name)
  return lookUp(scope, kind === "outputs" ? "outputs" : "variables", path)
}

export const asText = (value: unknown): string =>
  typeof value === "string" ? value : JSON.stringify(value)

const lookUp = (scope: Scope, kind: keyof Scope, path: string): unknown => {
  let found: unknown = scope[kind]
  for (const key of path.split(".")) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) {
      throw new Error(`there is no ${kind}.${path}`)
    }
    found = (found as Readonly<Record<string, unknown>>)[key]
  }
  if (found === undefined) throw new Error(`there is no ${kind}.${path}`)
  return found
}
