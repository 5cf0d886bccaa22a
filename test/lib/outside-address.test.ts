/** Addresses that a program of this machine may connect to on behalf of others. */
import { expect, test } from "bun:test"
import { outsideAddress } from "../../src/lib/outside-address.ts"

const find = (url: string, ...addresses: readonly string[]) =>
  outsideAddress(new URL(url), async () => addresses)

test("a host gets the address that its name resolves to", async () => {
  expect(await find("https://example.com/", "93.184.216.34")).toEqual({ address: "93.184.216.34" })
  expect(await find("https://93.184.216.34/")).toEqual({ address: "93.184.216.34" })
})

test.each([
  "http://localhost/",
  "http://a.localhost/",
  "http://127.0.0.1/",
  "http://127.1/",
  "http://0.0.0.0/",
  "http://169.254.169.254/",
  "http://[::1]/",
  "http://[::]/",
  "http://[fe80::1]/",
  "http://[::ffff:127.0.0.1]/",
])("%s is refused as an address of this machine or its link", async (url) => {
  expect(await find(url, "93.184.216.34")).toBe(false)
})

test("a name is refused if one of its addresses is of this machine, or if it has none", async () => {
  expect(await find("http://rebind.test/", "93.184.216.34", "127.0.0.1")).toBe(false)
  expect(await find("http://missing.test/")).toBe(false)
})
