/**
 * Presigned URLs of the S3 protocol (AWS Signature Version 4). A URL allows one method on one object until it expires, so
 * that a sandbox can store files without credentials. Works in Bun and in a Durable Object.
 */
import { createHash, createHmac } from "node:crypto"

export interface S3Bucket {
  /** Address of the service, without a path. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

export type S3Method = "GET" | "PUT" | "DELETE" | "HEAD"

export interface SignedRequest {
  readonly method: S3Method
  /** Without a leading slash; empty for the bucket itself. */
  readonly key: string
  /** Further parameters, which are signed as well. */
  readonly query?: Readonly<Record<string, string>>
  readonly now: number
  readonly expiresSeconds: number
}

/** The bucket is the first segment of the path, which every S3 service understands. */
export const presign = (bucket: S3Bucket, request: SignedRequest): string => {
  const { host, origin } = new URL(bucket.endpoint)
  const time = new Date(request.now).toISOString().replaceAll(/[-:]|\.\d{3}/g, "")
  const day = time.slice(0, 8)
  const scope = `${day}/${bucket.region}/s3/aws4_request`
  const path = `/${[bucket.bucket, ...request.key.split("/")].map(encode).join("/")}`
  const query = [
    ["X-Amz-Algorithm", "AWS4-HMAC-SHA256"],
    ["X-Amz-Credential", `${bucket.accessKeyId}/${scope}`],
    ["X-Amz-Date", time],
    ["X-Amz-Expires", String(request.expiresSeconds)],
    ["X-Amz-SignedHeaders", "host"],
    ...Object.entries(request.query ?? {}),
  ]
    .map(([name = "", value = ""]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join("&")
  const canonical = [request.method, path, query, `host:${host}`, "", "host", "UNSIGNED-PAYLOAD"]
  const hash = createHash("sha256").update(canonical.join("\n")).digest("hex")
  const toSign = ["AWS4-HMAC-SHA256", time, scope, hash].join("\n")
  const key = [day, bucket.region, "s3", "aws4_request"].reduce<string | Buffer>(
    (secret, text) => createHmac("sha256", secret).update(text).digest(),
    `AWS4${bucket.secretAccessKey}`,
  )
  const signature = createHmac("sha256", key).update(toSign).digest("hex")
  return `${origin}${path}?${query}&X-Amz-Signature=${signature}`
}

/** Everything but unreserved characters; `encodeURIComponent` leaves five others. */
const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
