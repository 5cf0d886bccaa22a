/**
 * Object storage of a deployment (S3 protocol). The hub only signs: sandboxes get URLs of their own session's objects and
 * never the credentials. The same in both hosts.
 */
import { presign, type S3Bucket, type S3Method } from "../lib/s3-url.ts"

export interface ObjectStorage {
  /** A URL that is valid for an hour. `name` is below the objects of the session. */
  readonly url: (method: S3Method, session: string, name: string) => string
  /** A URL that lists the objects below `folder` of the session, in order, after the one named `after`. */
  readonly listUrl: (session: string, folder: string, after: string) => string
}

const EXPIRES_SECONDS = 3600

type Environment = Readonly<Record<string, string | undefined>>

const required = ["S3_ENDPOINT", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"] as const

/** Undefined where the environment names no object storage. */
export const configureObjectStorage = (
  environment: Environment,
  now: () => number,
): ObjectStorage | undefined => {
  const [endpoint, accessKeyId, secretAccessKey] = required.map((name) => environment[name])
  if (!endpoint || !accessKeyId || !secretAccessKey) return undefined
  const bucket: S3Bucket = {
    endpoint,
    accessKeyId,
    secretAccessKey,
    region: environment["S3_REGION"] || "us-east-1",
    bucket: environment["S3_BUCKET"] || "workspace",
  }
  const keyOf = (session: string, name: string) =>
    `sandboxes/${encodeURIComponent(session)}/${name}`
  return {
    url: (method, session, name) =>
      presign(bucket, {
        method,
        key: keyOf(session, name),
        now: now(),
        expiresSeconds: EXPIRES_SECONDS,
      }),
    listUrl: (session, folder, after) =>
      presign(bucket, {
        method: "GET",
        key: "",
        query: {
          "list-type": "2",
          prefix: keyOf(session, folder),
          ...(after !== "" && { "start-after": keyOf(session, `${folder}${after}`) }),
        },
        now: now(),
        expiresSeconds: EXPIRES_SECONDS,
      }),
  }
}

export const NO_OBJECT_STORAGE = `this hub has no object storage: set ${required.join(", ")}`
