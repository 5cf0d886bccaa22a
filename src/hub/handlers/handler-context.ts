/** What handlers need besides the database. */

export interface HandlerContext {
  readonly now: () => number
  readonly newId: () => string
  /** `sha256:<hex>` of a text. */
  readonly digest: (text: string) => string
}
