/** Reads the Range header of a download (RFC 9110, one range of bytes). Pure. */

export interface ByteRange {
  readonly start: number
  /** Exclusive. */
  readonly end: number
}

/** `whole`: send everything. `unsatisfiable`: the file has no such bytes. */
export const parseRange = (
  header: string | undefined,
  size: number,
): ByteRange | "whole" | "unsatisfiable" => {
  if (header === undefined) return "whole"
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header.trim())
  // A header that cannot be read is ignored, as is a list of ranges.
  if (match === null) return "whole"
  const [, first = "", last = ""] = match
  if (first === "" && last === "") return "whole"
  if (first === "") {
    const length = Math.min(Number(last), size)
    return length === 0 ? "unsatisfiable" : { start: size - length, end: size }
  }
  const start = Number(first)
  const end = last === "" ? size : Math.min(Number(last) + 1, size)
  if (last !== "" && Number(last) < start) return "whole"
  return start >= size ? "unsatisfiable" : { start, end }
}
