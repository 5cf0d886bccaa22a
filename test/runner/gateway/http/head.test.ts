/** Parsing of valid heads; refused heads are in adversarial.test.ts. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { HttpError } from "../../../../src/runner/gateway/http/fields.ts"
import { parseRequestHead, parseResponseHead } from "../../../../src/runner/gateway/http/head.ts"
import {
  parseTarget,
  queryValue,
  withoutQuery,
} from "../../../../src/runner/gateway/http/target.ts"

const request = (...lines: string[]) =>
  parseRequestHead(["GET /a?b HTTP/1.1", "Host: h", ...lines].join("\r\n"))
const response = (status: number, ...lines: string[]) =>
  parseResponseHead([`HTTP/1.1 ${status} Words of it`, ...lines].join("\r\n"), "GET")

describe("the head of a request", () => {
  test("a request has a method, a target, a host and headers", () => {
    expect(request("X-A:  b c\t", "x-empty:")).toMatchObject({
      method: "GET",
      target: "/a?b",
      host: "h",
      version: "1.1",
      keepAlive: true,
      framing: { kind: "none" },
      headers: [
        { key: "host" },
        { name: "X-A", key: "x-a", value: "b c" },
        { key: "x-empty", value: "" },
      ],
    })
  })
  test("the framing of a request's body is read from its headers", () => {
    expect(request("Content-Length: 12").framing).toEqual({ kind: "length", length: 12 })
    expect(request("Content-Length: 0").framing).toEqual({ kind: "none" })
    expect(request("Transfer-Encoding: Chunked").framing).toEqual({ kind: "chunked" })
  })
  test("an Upgrade header counts only if Connection contains upgrade", () => {
    expect(request("Upgrade: WebSocket").upgrade).toBeUndefined()
    expect(request("Upgrade: WebSocket", "Connection: keep-alive, Upgrade").upgrade).toBe(
      "websocket",
    )
  })
  test("a request of HTTP/1.0 needs no Host and is not kept alive", () => {
    expect(parseRequestHead("GET / HTTP/1.0")).toMatchObject({ host: "", keepAlive: false })
  })
})

describe("the head of a response", () => {
  test("a response has a status, a reason and a framing", () => {
    expect(response(200, "Content-Length: 3")).toMatchObject({
      status: 200,
      reason: "Words of it",
      framing: { kind: "length", length: 3 },
      keepAlive: true,
    })
    expect(response(200)).toMatchObject({ framing: { kind: "until-close" }, keepAlive: false })
    expect(parseResponseHead("HTTP/1.1 200", "GET").status).toBe(200)
  })
  test.each([204, 304, 101])("a response with status %d has no body", (status) => {
    expect(response(status, "Content-Length: 3").framing).toEqual({ kind: "none" })
  })
  test("a response to HEAD has no body", () => {
    expect(parseResponseHead("HTTP/1.1 200 OK\r\nContent-Length: 3", "HEAD").framing).toEqual({
      kind: "none",
    })
  })
})

test("any text is either parsed as a head or refused with an HttpError", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii", maxLength: 200 }), (text) => {
      for (const parse of [parseRequestHead, (head: string) => parseResponseHead(head, "GET")]) {
        try {
          parse(text)
        } catch (error) {
          expect(error).toBeInstanceOf(HttpError)
        }
      }
    }),
    { numRuns: 2000 },
  )
})

test("an accepted path contains no dot segment in any encoding", () => {
  const pieces = fc.constantFrom(
    "/",
    ".",
    "..",
    "a",
    "%2e",
    "%2E",
    "%2f",
    "%5c",
    "\\",
    "%2",
    "%",
    "?",
    "b%20c",
  )
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
      let path: string
      try {
        path = parseTarget(`/${parts.join("")}`).path
      } catch {
        return
      }
      const decoded = path.replaceAll(/%2e/gi, ".").replaceAll(/%2f|%5c/gi, "/")
      const steps = decoded.split(/[/\\]/)
      expect(steps.some((step) => step === "." || step === "..")).toBe(false)
      expect(path.startsWith("//")).toBe(false)
    }),
    { numRuns: 5000 },
  )
})

describe("the query of a target", () => {
  test("a query parameter is found by its decoded name", () => {
    expect(queryValue("?a=1&%74oken=x%20y", "token")).toBe("x y")
    expect(queryValue("?a=%zz&token", "token")).toBe("")
    expect(queryValue("", "token")).toBeUndefined()
  })
  test("removing a query parameter keeps the spelling of the others", () => {
    expect(withoutQuery("?a=%20+&token=1&&b=%zz&%74oken=2", ["token"])).toBe("?a=%20+&&b=%zz")
    expect(withoutQuery("?token=1", ["token"])).toBe("")
  })
})
