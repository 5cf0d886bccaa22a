/** Bodies of other programs, up to a limit. */
import { describe, expect, test } from "bun:test"
import { untilTrue } from "../kit/until-true.ts"
import { readLimited, readRequest } from "../../src/lib/read-limited.ts"

/** A body in pieces of 10 bytes, which counts how much of it was read. */
const bodyOf = (bytes: number, headers = new Headers()) => {
  const state = { read: 0, isCancelled: false }
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const size = Math.min(10, bytes - state.read)
        if (size === 0) return controller.close()
        state.read += size
        controller.enqueue(new Uint8Array(size).fill(7))
      },
      cancel: () => {
        state.isCancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return { body, headers, state }
}

describe("the body of a request", () => {
  test("a body of exactly the limit is read whole", async () => {
    const bytes = await readRequest(bodyOf(100), 100)
    expect(bytes).toEqual(new Uint8Array(100).fill(7))
  })

  test("a body that is little longer than the limit is read to its end and refused, so that its sender gets the answer", async () => {
    for (const headers of [new Headers(), new Headers({ "content-length": "150" })]) {
      const request = bodyOf(150, headers)
      expect(await readRequest(request, 100)).toBe(413)
      await untilTrue(() => request.state.read === 150, "the end of the body")
      expect(request.state.isCancelled).toBe(false)
    }
  })

  test("of a body that is much longer than the limit at most twice the limit is read", async () => {
    const request = bodyOf(1_000_000)
    expect(await readRequest(request, 100)).toBe(413)
    await untilTrue(() => request.state.isCancelled, "the end of reading")
    expect(request.state.read).toBe(210)
  })

  test("a body whose length is announced as much longer is not read", async () => {
    const request = bodyOf(1_000_000, new Headers({ "content-length": "1000000" }))
    expect(await readRequest(request, 100)).toBe(413)
    expect(request.state).toEqual({ read: 0, isCancelled: true })
  })

  test("a body that is announced as little longer is refused before it has come", async () => {
    const body = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => {}) })
    const headers = new Headers({ "content-length": "150" })
    expect(await readRequest({ body, headers }, 100, 1)).toBe(413)
  })

  test("a body that does not come to its end in time is refused", async () => {
    const body = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => {}) })
    expect(await readRequest({ body }, 100, 1)).toBe(408)
  })
})

test("the rest of an answer that is longer than the limit is not read", async () => {
  const answer = bodyOf(1_000_000)
  expect(await readLimited(answer, 100)).toBeUndefined()
  expect(answer.state).toEqual({ read: 110, isCancelled: true })
})
