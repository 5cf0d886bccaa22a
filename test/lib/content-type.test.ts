/** The type of a file by its bytes. */
import { describe, expect, test } from "bun:test"
import { contentTypeOf } from "../../src/lib/content-type.ts"

const bytes = (latin1: string): Uint8Array => Buffer.from(latin1, "latin1")

describe("the type of a file", () => {
  test.each([
    ["image/png", "\x89PNG\r\n\x1a\nrest"],
    ["image/jpeg", "\xff\xd8\xff\xe0rest"],
    ["image/gif", "GIF89a\0\0"],
    ["image/webp", "RIFF\0\0\0\0WEBPVP8 "],
    ["application/pdf", "%PDF-1.7\n\xe2\xe3"],
    ["application/zip", "PK\x03\x04\0\0"],
    ["application/gzip", "\x1f\x8b\x08\0"],
    ["video/mp4", "\0\0\0\x20ftypisom"],
    ["video/webm", "\x1aE\xdf\xa3\0"],
    ["audio/mpeg", "ID3\x04\0"],
    ["audio/wav", "RIFF\0\0\0\0WAVEfmt "],
    ["audio/ogg", "OggS\0\x02"],
    ["text/plain", "plain words\n"],
    ["text/plain", ""],
  ])("content of type %s is recognized by its first bytes", (mime, content) => {
    expect(contentTypeOf(bytes(content))).toBe(mime)
  })

  test("UTF-8 is text, and a program or a broken encoding has no type", () => {
    expect(contentTypeOf(Buffer.from("grüße 🐦\n"))).toBe("text/plain")
    expect(contentTypeOf(bytes("\x7fELF\x02\x01\x01\0"))).toBeUndefined()
    expect(contentTypeOf(bytes("caf\xe9"))).toBeUndefined()
    expect(contentTypeOf(bytes("text with a NUL \0"))).toBeUndefined()
  })

  test("an SVG is text and not an image: it could contain a script", () => {
    expect(contentTypeOf(bytes("<svg xmlns='http://www.w3.org/2000/svg'/>"))).toBe("text/plain")
  })
})
