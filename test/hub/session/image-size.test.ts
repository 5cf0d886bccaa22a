/** The size of images from the head of their files: real images of each kind, and files that are broken or cut. */
import { describe, expect, test } from "bun:test"
import { assert, property, uint8Array } from "fast-check"
import { imageSize } from "../../../src/hub/session/image-size.ts"

const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ""), "hex").toString("base64")

const JPEG_HEAD = "ffd8 ffe0 0010 4a46494600010100000100010000 ffdb 0004 0001"
const images = [
  ["a PNG", hex("89504e470d0a1a0a 0000000d 49484452 00000280 000001e0"), 640, 480],
  ["a GIF", hex("474946383961 2c01 c800 00"), 300, 200],
  ["a GIF with a frame", hex("474946383961 2c01 c800 0000 00 2c 0000 0000 2c01 c800 00"), 300, 200],
  [
    "a GIF whose first frame is larger than its screen",
    hex("474946383961 0100 0100 8000 00 000000ffffff 21f904 00000000 00 2c 0000 0000 60ea 50c3 00"),
    60_000,
    50_000,
  ],
  ["a baseline JPEG", hex(`${JPEG_HEAD} ffc0 000b 08 0065 00c9 01 011100`), 201, 101],
  ["a progressive JPEG with padding", hex(`${JPEG_HEAD} ffff ffc2 000b 08 0001 0002 01`), 2, 1],
  [
    "a lossy WebP",
    hex("52494646 24000000 57454250 56503820 18000000 300100 9d012a 9001 2c01"),
    400,
    300,
  ],
  ["a lossless WebP", hex("52494646 24000000 57454250 5650384c 18000000 2f 8f c1 4a 00"), 400, 300],
  [
    "an extended WebP",
    hex("52494646 24000000 57454250 56503858 0a000000 00000000 8f0100 2b0100"),
    400,
    300,
  ],
] as const

describe("the size of an image", () => {
  test.each(images)("%s has its width and height", (_what, base64, width, height) => {
    expect(imageSize(base64)).toEqual({ width, height })
  })

  test.each(images)("%s that is cut has no size", (_what, base64) => {
    const bytes = Buffer.from(base64, "base64")
    expect(imageSize(bytes.subarray(0, 7).toString("base64"))).toBeUndefined()
  })

  test("another file and text that is not base64 have no size", () => {
    expect(imageSize(btoa("<svg width='1'/> and more than a head of text"))).toBeUndefined()
    expect(imageSize("%%%")).toBeUndefined()
    expect(imageSize("")).toBeUndefined()
  })

  test("a GIF with more before its first frame than is read has no size", () => {
    const block = Buffer.concat([Buffer.from([255]), Buffer.alloc(255)])
    const bytes = Buffer.concat([
      Buffer.from("47494638396101000100000000", "hex"),
      Buffer.from([0x21, 0xfe]),
      ...Array.from({ length: 2000 }, () => block),
    ])
    expect(imageSize(bytes.toString("base64"))).toBeUndefined()
  })

  test("no bytes after the head of a JPEG make the search endless or throw", () => {
    assert(
      property(uint8Array({ maxLength: 200 }), (rest) => {
        const size = imageSize(Buffer.concat([Buffer.from([0xff, 0xd8]), rest]).toString("base64"))
        if (size) expect(size.width * size.height).toBeGreaterThan(0)
      }),
    )
  })
})
