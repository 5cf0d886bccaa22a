/** Reads a body of another program up to a limit: a hostile one would otherwise fill the memory of this one. */

/** Undefined: the body is longer. The rest of it is not read. */
export const readLimited = async (
  { body }: Pick<Response, "body">,
  limit: number,
): Promise<Uint8Array | undefined> => {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body ?? []) {
    size += chunk.length
    if (size > limit) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

export const readLimitedText = async (
  from: Pick<Response, "body">,
  limit: number,
): Promise<string | undefined> => {
  const bytes = await readLimited(from, limit)
  return bytes && new TextDecoder().decode(bytes)
}
