/** An error response of the API; `message` is sent to the tool. */
import type { ContentfulStatusCode } from "hono/utils/http-status"

export class ApiError extends Error {
  override readonly name = "ApiError"
  readonly status: ContentfulStatusCode
  readonly code: string
  constructor(status: ContentfulStatusCode, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}
