/** A value that is set once, after the components that read it were created: joins components that need each other. */

export interface Late<Value> {
  /** Throws until `set` was called: the value is read too early. */
  readonly get: () => Value
  readonly set: (value: Value) => void
}

export const createLate = <Value>(name: string): Late<Value> => {
  let stored: { readonly value: Value } | undefined
  return {
    get: () => {
      if (stored === undefined) throw new Error(`${name}: read before it was set`)
      return stored.value
    },
    set: (value) => {
      stored = { value }
    },
  }
}
