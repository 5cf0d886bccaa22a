/** What the handlers need beside tables. */

export interface HandlerContext {
  readonly now: () => number
  readonly newId: () => string
  /** `sha256:<hex>` of a text. */
  readonly digest: (text: string) => string
}
