/** What handlers need besides the database. */

export interface HandlerContext {
  readonly now: () => number
  readonly newId: () => string
  /** `sha256:<hex>` of the value's canonical form, which does not depend on the order of keys. */
  readonly hash: (value: unknown) => string
}

export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(",")}}`
}
