/**
 * The canonical form of a workflow definition and its hash. Hub, runner and command line all use this one, so that a
 * `workflowHash` from any of them is accepted by the others.
 */

/** `digest` is lib/digest.ts's: `sha256:` and the hex digest of the text. */
export const hashWorkflow = (definition: unknown, digest: (text: string) => string): string =>
  digest(canonical(withIds(definition)))

/** JSON with sorted keys and without undefined fields: equal values give equal texts. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one ?? null)).join(",")}]`
  if (!isObject(value)) return JSON.stringify(value ?? null)
  const fields = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
  return `{${fields.join(",")}}`
}

/** Gives each step without an id one that names its position; an id that is given stays, valid or not. */
export const withIds = (definition: unknown, prefix = ""): unknown => {
  if (!isObject(definition)) return definition
  return { ...definition, steps: nameAll(definition["steps"], `${prefix}step-`) }
}

const nameAll = (list: unknown, prefix: string): unknown =>
  Array.isArray(list)
    ? list.map((one: unknown, index) => nameOne(one, `${prefix}${index + 1}`))
    : list

const nameOne = (one: unknown, given: string): unknown => {
  if (!isObject(one)) return one
  const id = one["id"] ?? given
  const below = typeof id === "string" ? id : given
  const nested = (["steps", "then", "else"] as const).flatMap((key) =>
    one[key] === undefined ? [] : [[key, nameAll(one[key], `${below}-${key}-`)] as const],
  )
  const inner = isObject(one["workflow"]) ? { workflow: withIds(one["workflow"]) } : {}
  return { ...one, ...Object.fromEntries(nested), ...inner, id }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
