/** Requests that the runner makes for itself: no tool and no operation uses them. */
import { z } from "zod"
import { wireRequest } from "../operations/define.ts"

/** For git and `gh`; the runner keeps the token in its memory only. */
const gitToken = wireRequest(
  "git-token",
  15_000,
  {
    /** The git host, such as `https://github.com`. */
    origin: z.string().max(300),
    /** owner/name of the session's repositories there: the token is for these only. */
    repositories: z.array(z.string().max(200)).max(50),
  },
  { token: z.string().min(1), expiresAt: z.number() },
)

/** A tuple, because the types of request and result frames are computed from it. */
export const ownRequests = [gitToken] as const

export const ownRequestDocs: Readonly<Record<(typeof ownRequests)[number]["type"], string>> = {
  "git-token":
    "Issue a short-lived token for git and `gh`; `expiresAt` is in milliseconds. The session agent does not store the result.",
}
