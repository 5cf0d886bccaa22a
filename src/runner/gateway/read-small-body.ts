/** Collects a small request body as text, and refuses a larger one. */
import { errorResponse } from "./error-response.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

const BODY_LIMIT = 4096

export const readSmallBody = (
  exchange: HttpExchange,
  then: (text: string) => void,
  onError: (exchange: HttpExchange, error: unknown) => void,
): void => {
  const pieces: Buffer[] = []
  let size = 0
  exchange.receive(
    {
      data: (bytes) => {
        size += bytes.length
        if (size > BODY_LIMIT)
          return exchange.respond(errorResponse(413, "too-large", "the body is too large"))
        pieces.push(bytes)
      },
      end: () => {
        try {
          if (size <= BODY_LIMIT) then(Buffer.concat(pieces).toString())
        } catch (error) {
          onError(exchange, error)
        }
      },
      closed: () => {},
      drained: () => {},
    },
    "decoded",
  )
}
