/** Channel addresses and keys, as the runner and the session agent use them. */
import { describe, expect, test } from "bun:test"
import { addressOf, channelAddress, channelKey, hasChannel } from "../../src/wire/channel.ts"

const incomplete = [
  {},
  { channelType: "telegram" },
  { channelId: "1" },
  { channelType: "telegram", channelId: "" },
  { channelType: "", channelId: "1" },
  { channelType: undefined, channelId: "1" },
]

describe("channel fields", () => {
  test("a complete address is used as it is, without other fields of the frame", () => {
    const fields = { channelType: "telegram", channelId: "1", messageId: "m" }
    expect(hasChannel(fields)).toBe(true)
    expect(addressOf(fields)).toEqual({ channelType: "telegram", channelId: "1" })
    expect(channelKey(fields)).toBe("telegram:1")
  })

  test.each(incomplete)("an incomplete address %j means the default channel", (fields) => {
    expect(hasChannel(fields)).toBe(false)
    expect(addressOf(fields)).toEqual({ channelType: "web", channelId: "default" })
    expect(channelKey(fields)).toBe("web:default")
  })
})

describe("channel keys", () => {
  test("the first colon separates type and id, so an id may contain colons", () => {
    expect(channelAddress("slack:C1:thread")).toEqual({
      channelType: "slack",
      channelId: "C1:thread",
    })
  })

  test("an address survives the way to its key and back", () => {
    for (const address of [
      { channelType: "web", channelId: "default" },
      { channelType: "workflow", channelId: "a:b:c" },
    ]) {
      expect(channelAddress(channelKey(address))).toEqual(address)
    }
  })
})
