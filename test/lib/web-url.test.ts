/** Web addresses. */
import { expect, test } from "bun:test"
import { isWebUrl } from "../../src/lib/web-url.ts"

test("only http and https addresses are web addresses", () => {
  for (const url of ["http://a.example", "https://a.example/x?y"]) expect(isWebUrl(url)).toBe(true)
  for (const url of ["", "a.example", "file:///etc/passwd", "ws://a.example"]) {
    expect(isWebUrl(url)).toBe(false)
  }
})
