/**
 * Reads the small body of a request before the object gets it. The runtime closes a connection whose request was answered before its
 * body was read, as a refusal is, and the client's next request on that connection would fail.
 */
import { type Clock, systemClock } from "../../../lib/clock.ts"

const SMALL_BYTES = 64 * 1024
/** A client sends a small body with its head. A slower one is not waited for: the object may refuse it before its body has come. */
const EARLY_MS = 500

export const withEarlyBody = async (
  request: Request,
  clock: Pick<Clock, "after"> = systemClock,
): Promise<Request> => {
  const length = request.headers.get("content-length")
  if (!request.body || length === null || Number(length) > SMALL_BYTES) return request
  const late = Promise.withResolvers<"late">()
  const cancel = clock.after(EARLY_MS, () => late.resolve("late"))
  const reader = request.body.getReader()
  const pieces: Uint8Array<ArrayBuffer>[] = []
  let pending = reader.read()
  const withBody = (body: Blob | ReadableStream<Uint8Array>) =>
    new Request(request.url, { method: request.method, headers: request.headers, body })
  for (;;) {
    const piece = await Promise.race([pending, late.promise])
    if (piece === "late") break
    if (piece.done) {
      cancel()
      return withBody(new Blob(pieces))
    }
    pieces.push(piece.value)
    pending = reader.read()
  }
  return withBody(
    new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (const piece of pieces) controller.enqueue(piece)
      },
      pull: async (controller) => {
        const { done, value } = await pending
        if (done) return controller.close()
        controller.enqueue(value)
        pending = reader.read()
      },
      cancel: (reason) => reader.cancel(reason),
    }),
  )
}
