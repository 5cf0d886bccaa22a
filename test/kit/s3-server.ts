/**
 * A small S3 service that checks Signature Version 4, presigned and in headers: objects in memory, path-style addresses,
 * put, get with range, head, delete and list. Its signatures are computed here again, independently of `src`.
 */
import { createHash, createHmac } from "node:crypto"

export interface S3Server {
  readonly endpoint: string
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string }
  readonly region: string
  readonly bucket: string
  /** Contents by key. */
  readonly objects: Map<string, Uint8Array>
  /** Content types by key, of objects that were stored with one. */
  readonly types: Map<string, string>
  /** When an object was stored, by key; a test may change it. */
  readonly times: Map<string, number>
  /** Entries of one page of a listing. */
  pageSize: number
  /** `METHOD key` of every accepted request, oldest first. */
  readonly calls: string[]
  /** Decides before an accepted request is carried out; a response given here is sent instead. */
  intercept: ((method: string, key: string) => Promise<Response | undefined>) | undefined
  readonly stop: () => Promise<void>
}

export const startS3Server = (
  credentials = { accessKeyId: "test:key/+", secretAccessKey: "a secret of the tests only" },
): S3Server => {
  const region = "eu-test-1"
  const bucket = "workspace"
  const objects = new Map<string, Uint8Array>()
  const types = new Map<string, string>()
  const times = new Map<string, number>()
  const calls: string[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const url = new URL(request.url)
      const problem = problemOf(request, url, { ...credentials, region })
      if (problem !== undefined) return failure(403, problem)
      const body = await request.bytes()
      if (!hasClaimedBody(request, body)) return failure(400, "XAmzContentSHA256Mismatch")
      const [, first = "", ...rest] = url.pathname.split("/").map(decodeURIComponent)
      if (first !== bucket) return failure(404, "NoSuchBucket")
      const key = rest.join("/")
      calls.push(`${request.method} ${key}`)
      const intercepted = await result.intercept?.(request.method, key)
      if (intercepted) return intercepted
      if (key === "" && request.method === "GET") return list(url, result)
      return answer(request, key, body, result)
    },
  })
  const result: S3Server = {
    endpoint: `http://127.0.0.1:${server.port}`,
    credentials,
    region,
    bucket,
    objects,
    types,
    times,
    pageSize: 1000,
    calls,
    intercept: undefined,
    stop: () => server.stop(true),
  }
  return result
}

const answer = async (
  request: Request,
  key: string,
  body: Uint8Array,
  { objects, types, times }: S3Server,
): Promise<Response> => {
  const found = objects.get(key)
  switch (request.method) {
    case "PUT": {
      const length = Number(request.headers.get("content-length") ?? body.length)
      if (body.length !== length) return failure(400, "IncompleteBody")
      objects.set(key, body)
      types.set(key, request.headers.get("content-type") ?? "binary/octet-stream")
      times.set(key, Date.now())
      return new Response(null, { headers: { etag: etagOf(body) } })
    }
    case "DELETE":
      objects.delete(key)
      return new Response(null, { status: 204 })
    case "HEAD":
    case "GET": {
      if (!found) return failure(404, "NoSuchKey")
      const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("range") ?? "")
      const part = range
        ? found.slice(Number(range[1]), range[2] ? Number(range[2]) + 1 : undefined)
        : found
      const headers = {
        etag: etagOf(found),
        "content-length": String(part.length),
        "content-type": types.get(key) ?? "binary/octet-stream",
      }
      return new Response(request.method === "HEAD" ? null : Buffer.from(part), {
        status: range ? 206 : 200,
        headers,
      })
    }
    default:
      return failure(405, "MethodNotAllowed")
  }
}

const list = (url: URL, { objects, times, pageSize }: S3Server): Response => {
  const asked = (name: string) => url.searchParams.get(name) ?? ""
  const after = asked("continuation-token") || asked("start-after")
  const most = Math.min(pageSize, Number(asked("max-keys") || pageSize))
  const found = [...objects.keys()]
    .filter((key) => key.startsWith(asked("prefix")) && key > after)
    .toSorted()
  const page = found.slice(0, most)
  const isTruncated = page.length < found.length
  const rows = page.map((key) => {
    const bytes = objects.get(key) ?? new Uint8Array()
    const at = new Date(times.get(key) ?? Date.now()).toISOString()
    return `<Contents><Key>${escaped(key)}</Key><LastModified>${at}</LastModified><ETag>${escaped(etagOf(bytes))}</ETag><Size>${bytes.length}</Size></Contents>`
  })
  const next = isTruncated
    ? `<NextContinuationToken>${escaped(page.at(-1) ?? "")}</NextContinuationToken>`
    : ""
  const body = `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isTruncated}</IsTruncated><KeyCount>${rows.length}</KeyCount>${next}${rows.join("")}</ListBucketResult>`
  return new Response(body, { headers: { "content-type": "application/xml" } })
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")

/** A signature in headers also names the SHA-256 of the body, unless it says that it does not. */
const hasClaimedBody = (request: Request, body: Uint8Array): boolean => {
  const claimed = request.headers.get("x-amz-content-sha256") ?? "UNSIGNED-PAYLOAD"
  return (
    claimed === "UNSIGNED-PAYLOAD" || claimed === createHash("sha256").update(body).digest("hex")
  )
}

const etagOf = (bytes: Uint8Array): string => `"${createHash("md5").update(bytes).digest("hex")}"`

const failure = (status: number, code: string): Response =>
  new Response(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`, {
    status,
    headers: { "content-type": "application/xml" },
  })

interface Secrets {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly region: string
}

interface Claim {
  readonly credential: string
  readonly time: string
  readonly signedHeaders: readonly string[]
  readonly signature: string
  readonly payload: string
  readonly expiresSeconds: number
}

const problemOf = (request: Request, url: URL, secrets: Secrets): string | undefined => {
  const claim = claimOf(request, url)
  if (claim === undefined) return "AccessDenied"
  const [day = "", zone, service, end] = claim.credential.split("/").slice(-4)
  const accessKey = claim.credential.split("/").slice(0, -4).join("/")
  if (accessKey !== secrets.accessKeyId) return "InvalidAccessKeyId"
  if (zone !== secrets.region || service !== "s3" || end !== "aws4_request")
    return "AuthorizationHeaderMalformed"
  if (!claim.signedHeaders.includes("host")) return "AccessDenied"
  const at = Date.parse(claim.time.replace(/^(.{4})(..)(..)T(..)(..)(..)Z$/, "$1-$2-$3T$4:$5:$6Z"))
  if (!(Date.now() < at + claim.expiresSeconds * 1000)) return "AccessDenied"
  const scope = [day, zone, service, end].join("/")
  const pairs = url.search
    .slice(1)
    .split("&")
    .filter((pair) => pair !== "" && !pair.startsWith("X-Amz-Signature="))
    .map((pair) => (pair.includes("=") ? pair : `${pair}=`))
    .toSorted()
  const canonical = [
    request.method,
    url.pathname,
    pairs.join("&"),
    ...claim.signedHeaders.map(
      (name) => `${name}:${(request.headers.get(name) ?? "").trim().replaceAll(/ +/g, " ")}`,
    ),
    "",
    claim.signedHeaders.join(";"),
    claim.payload,
  ].join("\n")
  const toSign = [
    "AWS4-HMAC-SHA256",
    claim.time,
    scope,
    createHash("sha256").update(canonical).digest("hex"),
  ].join("\n")
  const hmac = (key: string | Buffer, text: string) =>
    createHmac("sha256", key).update(text).digest()
  const signing = hmac(
    hmac(hmac(hmac(`AWS4${secrets.secretAccessKey}`, day), secrets.region), "s3"),
    "aws4_request",
  )
  const expected = hmac(signing, toSign).toString("hex")
  return expected === claim.signature ? undefined : "SignatureDoesNotMatch"
}

const HEADER =
  /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/

const claimOf = (request: Request, url: URL): Claim | undefined => {
  const value = (name: string) => url.searchParams.get(name) ?? ""
  const header = HEADER.exec(request.headers.get("authorization") ?? "")
  if (header)
    return {
      credential: header[1] ?? "",
      signedHeaders: header[2]?.split(";") ?? [],
      signature: header[3] ?? "",
      time: request.headers.get("x-amz-date") ?? "",
      payload: request.headers.get("x-amz-content-sha256") ?? "",
      expiresSeconds: 900,
    }
  if (value("X-Amz-Algorithm") !== "AWS4-HMAC-SHA256") return undefined
  return {
    credential: value("X-Amz-Credential"),
    signedHeaders: value("X-Amz-SignedHeaders").split(";"),
    signature: value("X-Amz-Signature"),
    time: value("X-Amz-Date"),
    payload: "UNSIGNED-PAYLOAD",
    expiresSeconds: Number(value("X-Amz-Expires")),
  }
}
