/** Errors of the `/v1` routes: RFC 9457 problem details with the types of sandbox-agent's published API. */
import { errorCode } from "../../../lib/error-code.ts"

export type ProblemKind =
  | "invalid_request"
  | "not_found"
  | "conflict"
  | "permission_denied"
  | "stream_error"

export class Problem extends Error {
  override readonly name = "Problem"
  readonly status: number
  readonly kind: ProblemKind
  constructor(status: number, kind: ProblemKind, detail: string, options?: ErrorOptions) {
    super(detail, options)
    this.status = status
    this.kind = kind
  }
}

const titles: Readonly<Record<ProblemKind, string>> = {
  invalid_request: "Invalid Request",
  not_found: "Not Found",
  conflict: "Conflict",
  permission_denied: "Permission Denied",
  stream_error: "Stream Error",
}

export const problemBody = ({ status, kind, message }: Problem): string =>
  JSON.stringify({
    type: `urn:sandbox-agent:error:${kind}`,
    title: titles[kind],
    status,
    detail: message,
  })

export const invalid = (detail: string): Problem => new Problem(400, "invalid_request", detail)

/** What a failed system call means for the caller: status, kind, and the words after the path. */
const meanings: Readonly<Record<string, readonly [number, ProblemKind, string]>> = {
  ENOENT: [404, "not_found", "does not exist"],
  EEXIST: [409, "conflict", "exists already"],
  ENOTDIR: [400, "invalid_request", "is below something that is not a directory"],
  EISDIR: [400, "invalid_request", "is a directory"],
  ENOTEMPTY: [409, "conflict", "is a directory that is not empty: delete it with recursive=true"],
  ELOOP: [400, "invalid_request", "is a symbolic link, which is not followed"],
  ENAMETOOLONG: [400, "invalid_request", "has a name that is too long"],
  EINVAL: [400, "invalid_request", "cannot be moved there"],
  EXDEV: [400, "invalid_request", "is on another file system than its destination"],
  EBUSY: [409, "conflict", "is in use"],
  EACCES: [403, "permission_denied", "may not be used by the agent's user"],
  EPERM: [403, "permission_denied", "may not be used by the agent's user"],
  EROFS: [403, "permission_denied", "is on a file system that is read-only"],
  ENOSPC: [507, "stream_error", "cannot be written: the disk is full"],
  EDQUOT: [507, "stream_error", "cannot be written: the quota is used up"],
  EMFILE: [503, "stream_error", "cannot be opened: too many files are open"],
}

/** The problem behind a failed system call, also if it is the cause of another error; any other error stays as it is. */
export const problemOf = (error: unknown, path: string): unknown => {
  if (error instanceof Problem || !(error instanceof Error)) return error
  const code = errorCode(error) ?? errorCode(error.cause)
  const meaning = code === undefined ? undefined : meanings[code]
  if (meaning === undefined) return error
  const [status, kind, words] = meaning
  return new Problem(status, kind, `${path} ${words}`, { cause: error })
}
