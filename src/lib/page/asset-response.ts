/** Serves one file of the page: compressed as the client accepts, with an ETag, and 304 if the client has it. */

export interface PageFile {
  readonly type: string
  /** Of the content: another content has another hash. */
  readonly hash: string
  /** Its name contains the hash, so a browser never has to ask again. */
  readonly isImmutable: boolean
  readonly br: Uint8Array<ArrayBuffer>
  readonly gz: Uint8Array<ArrayBuffer>
}

/** The built files by path without the leading slash, such as `index.html`. */
export type PageFiles = ReadonlyMap<string, PageFile>

export interface AssetResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array<ArrayBuffer>
}

/** `header` reads a header of the request. */
export const assetResponse = (
  header: (name: string) => string | undefined,
  file: PageFile,
  headers: Readonly<Record<string, string>>,
): AssetResponse => {
  const etag = `"${file.hash}"`
  const common = {
    ...headers,
    etag,
    "cache-control": file.isImmutable ? "public, max-age=31536000, immutable" : "no-cache",
    vary: "accept-encoding",
  }
  if (matches(header("if-none-match"), etag)) return { status: 304, headers: common }
  const encoding = encodingFor(header("accept-encoding") ?? "")
  return {
    status: 200,
    headers: {
      ...common,
      "content-type": file.type,
      ...(encoding !== "identity" && { "content-encoding": encoding }),
    },
    body: bodyOf(file, encoding),
  }
}

type Encoding = "br" | "gzip" | "identity"

/** Brotli if the client accepts it, else gzip, else neither. A quality of 0 is a refusal. */
const encodingFor = (accepted: string): Encoding => {
  const qualities = new Map(
    accepted.split(",").map((item) => {
      const [name = "", ...parameters] = item
        .trim()
        .toLowerCase()
        .split(/\s*;\s*/)
      const quality = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2)
      return [name, quality === undefined ? 1 : Number(quality)] as const
    }),
  )
  const accepts = (name: string) => (qualities.get(name) ?? qualities.get("*") ?? 0) > 0
  if (accepts("br")) return "br"
  return accepts("gzip") ? "gzip" : "identity"
}

const matches = (condition: string | undefined, etag: string): boolean =>
  condition !== undefined &&
  (condition.trim() === "*" ||
    condition.split(",").some((one) => one.trim().replace(/^W\//, "") === etag))

const bodyOf = (file: PageFile, encoding: Encoding): Uint8Array<ArrayBuffer> => {
  if (encoding === "br") return file.br
  return encoding === "gzip" ? file.gz : Bun.gunzipSync(file.gz)
}
