/** The type of a file by its bytes, because a name or a header may be wrong. Only types that a person can open. Pure. */

type Signature = readonly [mime: string, start: string, offset: number]

const signatures: readonly Signature[] = [
  ["image/png", "\x89PNG\r\n\x1a\n", 0],
  ["image/jpeg", "\xff\xd8\xff", 0],
  ["image/gif", "GIF87a", 0],
  ["image/gif", "GIF89a", 0],
  ["image/webp", "WEBP", 8],
  ["application/pdf", "%PDF-", 0],
  ["application/zip", "PK\x03\x04", 0],
  ["application/gzip", "\x1f\x8b", 0],
  ["video/mp4", "ftyp", 4],
  ["video/webm", "\x1aE\xdf\xa3", 0],
  ["audio/mpeg", "ID3", 0],
  ["audio/wav", "WAVE", 8],
  ["audio/ogg", "OggS", 0],
]

const HEAD_BYTES = 16

/** Undefined for content of any other type, for example a program. */
export const contentTypeOf = (bytes: Uint8Array): string | undefined => {
  const head = String.fromCharCode(...bytes.subarray(0, HEAD_BYTES))
  const known = signatures.find(([, start, offset]) => head.startsWith(start, offset))
  if (known) return known[0]
  return isText(bytes) ? "text/plain" : undefined
}

const isText = (bytes: Uint8Array): boolean => {
  if (bytes.includes(0)) return false
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}
