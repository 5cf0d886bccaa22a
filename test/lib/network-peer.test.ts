/** One peer is what one caller can have any number of addresses of. */
import { expect, test } from "bun:test"
import { createAttempts } from "../../src/lib/failed-attempts.ts"
import { peerOf } from "../../src/lib/network-peer.ts"

test("the addresses of one IPv6 network are one peer, however they are written", () => {
  for (const address of [
    "2001:db8:1:2::",
    "2001:db8:1:2::1",
    "2001:db8:1:2:ffff:ffff:ffff:ffff",
    "2001:0DB8:0001:0002:0:0:0:1%eth0",
  ])
    expect(peerOf(address)).toBe("2001:db8:1:2::/64")
  expect(peerOf("2001:db8:1:3::1")).not.toBe(peerOf("2001:db8:1:2::1"))
  expect(peerOf("2001:db8::1:2:3:4:5")).toBe("2001:db8:0:1::/64")
  expect(peerOf("::1")).toBe("0:0:0:0::/64")
})

test("an IPv4 address is a peer by itself, also when it is written as IPv6", () => {
  expect(peerOf("192.0.2.1")).toBe("192.0.2.1")
  expect(peerOf("::ffff:192.0.2.1")).toBe("192.0.2.1")
  expect(peerOf("")).toBe("")
})

test("wrong secrets from many addresses of one IPv6 network are limited as those from one address", () => {
  const attempts = createAttempts(() => 0)
  const limited = Array.from({ length: 40 }, (_, index) =>
    attempts.failed(`2001:db8:1:2::${index.toString(16)}`),
  )
  expect(limited.filter(Boolean)).toHaveLength(20)
  expect(attempts.failed("2001:db8:1:3::1")).toBe(false)
})
