/** What handlers need besides the database. */

export interface HandlerContext {
  readonly now: () => number
  readonly newId: () => string
  /** For hosts that find the store of a trigger by its id. */
  readonly newTriggerId?: () => string
  /** `sha256:<hex>` of a text. */
  readonly digest: (text: string) => string
}
