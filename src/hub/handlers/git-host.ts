/** Pull requests and repositories of a git host, over GitHub's REST API. The host decides how a call is made: with a token or with `gh`. */
import { ownerAndName } from "../../lib/git-url.ts"
import { type ExternalHandlers, Refusal } from "./handler-table.ts"

export type GitHost = Pick<
  ExternalHandlers,
  | "create-pr"
  | "update-pr"
  | "list-pull-requests"
  | "inspect-pull-request"
  | "list-repos"
  | "read-repo-file"
  | "git-token"
>

export interface IssuedToken {
  readonly token: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** Issues a token that is valid for a short time, for the named repositories of an origin. */
export type IssueToken = (origin: string, repositories: readonly string[]) => Promise<IssuedToken>

export interface GitHostOptions {
  /** One API call. Throws a Refusal with the reason when the git host rejects it. */
  readonly call: (method: string, path: string, body?: object) => Promise<unknown>
  /** The `origin` URL of the session's checkout. */
  readonly origin: (session: string) => Promise<string | undefined>
  /** Absent if the owner has no installation of a GitHub App. */
  readonly issueToken?: IssueToken | undefined
  /** Waits between attempts; a timer of the runtime if it is not given. */
  readonly wait?: (ms: number) => Promise<void>
}

export const NO_GIT_HOST =
  "no git host is set up: set GITHUB_TOKEN, or install gh and sign in with `gh auth login`"
const NO_GITHUB_APP =
  "no short-lived git tokens are issued for this session: the operator sets GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY and GITHUB_APP_INSTALLATIONS"
const FULL_NAME = /^[\w.-]+\/[\w.-]+$/
const API_TIMEOUT_MS = 25_000

/** The git host or the way to it failed. `retryable`: the same call may succeed later. */
export class GitHostError extends Refusal {
  readonly retryable: boolean
  readonly status: number | undefined
  constructor(message: string, retryable: boolean, status?: number) {
    super(message)
    this.retryable = retryable
    this.status = status
  }
}

/** GitHub answers 422 if there is an open pull request of the branch already. */
const isConflict = (error: unknown): boolean =>
  error instanceof GitHostError && error.status === 422

export const answeredWith = (status: number, message: string): GitHostError =>
  new GitHostError(
    `the git host answered ${status}${message === "" ? "" : `: ${message}`}`,
    status === 429 || status >= 500,
    status,
  )

/** Within the deadline of a request, which is 30 s. */
const RETRY_MS = [400, 1600] as const

export const createGitHost = ({
  call: callOnce,
  origin,
  issueToken = () => Promise.reject(new Refusal(NO_GITHUB_APP)),
  wait = sleep,
}: GitHostOptions): GitHost => {
  /** For a call that may be repeated: `again` runs before each retry and may find that the work is done. */
  const retrying = async <Result>(
    run: () => Promise<Result>,
    again?: () => Promise<Result | undefined>,
  ): Promise<Result> => {
    for (const ms of RETRY_MS) {
      try {
        return await run()
      } catch (error) {
        if (!(error instanceof GitHostError) || !error.retryable) throw error
        await wait(ms)
        const found = await again?.().catch(() => undefined)
        if (found !== undefined) return found
      }
    }
    return run()
  }
  /** GET, PUT and PATCH have the same effect when they are repeated. */
  const call: GitHostOptions["call"] = (method, path, body) =>
    retrying(() => callOnce(method, path, body))

  const repoOf = async (
    session: string,
    { owner, repo, checkout }: { owner?: string; repo?: string; checkout?: string },
  ): Promise<string> => {
    if (owner !== undefined && repo !== undefined) return `${checkName(owner)}/${checkName(repo)}`
    if (checkout !== undefined) return checkout.split("/").map(checkName).join("/")
    const found = ownerAndName((await origin(session)) ?? "")
    if (found !== undefined) return found
    throw new Refusal(
      "owner and repo: are required, because the checkout has no origin on a git host",
    )
  }
  return {
    "create-pr": async ({ branch, title, body, base, checkout }, { session }) => {
      const repo = await repoOf(session, optional({ checkout }))
      const head = `${repo.split("/")[0]}:${encodeURIComponent(branch)}`
      // The API has no idempotency key: a repeated call looks for the pull request that the first one opened.
      const findOpen = async () => {
        const [known] = list(await call("GET", `/repos/${repo}/pulls?state=open&head=${head}`))
        return known
      }
      const known = await findOpen()
      if (known !== undefined) return showPull(known)
      const baseBranch =
        base ?? (text(record(await call("GET", `/repos/${repo}`))["default_branch"]) || "main")
      const fields = { head: branch, base: baseBranch, title, body }
      const open = async () => {
        try {
          return await callOnce("POST", `/repos/${repo}/pulls`, fields)
        } catch (error) {
          // Another attempt whose answer was lost may have opened it since the search.
          const opened = isConflict(error) ? await findOpen() : undefined
          if (opened === undefined) throw error
          return opened
        }
      }
      return showPull(await retrying(open, findOpen))
    },
    "update-pr": async ({ prNumber, labels, checkout, ...change }, { session }) => {
      const repo = await repoOf(session, optional({ checkout }))
      if (labels) await call("PUT", `/repos/${repo}/issues/${prNumber}/labels`, { labels })
      return showPull(await call("PATCH", `/repos/${repo}/pulls/${prNumber}`, change))
    },
    "list-pull-requests": async ({ state = "open", limit = 30, ...target }, { session }) => {
      const name = await repoOf(session, optional(target))
      return {
        pulls: list(
          await call(
            "GET",
            `/repos/${name}/pulls?state=${encodeURIComponent(state)}&per_page=${limit}`,
          ),
        ).map(showPull),
      }
    },
    "inspect-pull-request": async (fields, { session }) => {
      const { prNumber, filesLimit = 100, commentsLimit = 50, ...target } = fields
      const repo = `/repos/${await repoOf(session, optional(target))}`
      const pull = `${repo}/pulls/${prNumber}`
      const [details, files, comments, reviews] = await Promise.all([
        call("GET", pull),
        call("GET", `${pull}/files?per_page=${Math.min(filesLimit, 100)}`),
        call("GET", `${repo}/issues/${prNumber}/comments?per_page=${Math.min(commentsLimit, 100)}`),
        call("GET", `${pull}/reviews?per_page=100`),
      ])
      const commit = `${repo}/commits/${text(record(record(details)["head"])["sha"])}`
      const checks = await readChecks(call, commit)
      const shown = { ...showPull(details), body: record(details)["body"] }
      return {
        data: { ...shown, checks, reviews: list(reviews).map(showReview), files, comments },
      }
    },
    "git-token": async ({ origin: of, repositories }) => {
      const isNamed = repositories.length > 0 && repositories.every((name) => FULL_NAME.test(name))
      if (!isNamed) throw new Refusal("repositories: must name at least one, as owner/name")
      return issueToken(of, repositories)
    },
    "list-repos": async () => ({
      repos: list(await call("GET", "/user/repos?per_page=100&sort=pushed")).map((entry) => {
        const { full_name, clone_url, default_branch, private: isPrivate } = record(entry)
        return {
          fullName: full_name,
          cloneUrl: clone_url,
          defaultBranch: default_branch,
          private: isPrivate,
        }
      }),
    }),
    "read-repo-file": async ({ repoUrl, path, ref, ...target }, { session }) => {
      const fromUrl = repoUrl === undefined ? undefined : ownerAndName(repoUrl)
      if (repoUrl !== undefined && fromUrl === undefined)
        throw new Refusal("repoUrl: is not the URL of a repository")
      const name = fromUrl ?? (await repoOf(session, optional(target)))
      const query = ref === undefined ? "" : `?ref=${encodeURIComponent(ref)}`
      const file = record(
        await call(
          "GET",
          `/repos/${name}/contents/${path.split("/").map(encodeURIComponent).join("/")}${query}`,
        ),
      )
      if (typeof file["content"] !== "string") throw new Refusal(`${path} is not a file`)
      const bytes = Uint8Array.from(atob(file["content"].replaceAll(/\s/g, "")), (byte) =>
        byte.charCodeAt(0),
      )
      const content = new TextDecoder().decode(bytes)
      return { content, encoding: "utf-8", path, repo: name, ...(ref !== undefined && { ref }) }
    },
  }
}

/** Calls GitHub's API with a token. */
export const githubApi =
  (apiUrl: string, token: string): GitHostOptions["call"] =>
  async (method, path, body) => {
    const response = await fetch(`${apiUrl}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        Accept: "application/vnd.github+json",
        "User-Agent": "sandpiper",
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(API_TIMEOUT_MS),
    }).catch((cause: unknown) => {
      const why = cause instanceof Error && cause.name === "TimeoutError" ? "in time" : "at all"
      // A call that ran out of time has used up the request's time too.
      throw new GitHostError(`the git host did not answer ${why}`, why === "at all")
    })
    const value: unknown = await response.json().catch(() => undefined)
    if (response.ok) return value
    const message = record(value)["message"]
    throw answeredWith(response.status, text(message))
  }

const record = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const showPull = (value: unknown) => {
  const { number, html_url, title, state } = record(value)
  return {
    number: Number(number),
    url: text(html_url),
    title: text(title),
    state: text(state),
  }
}

/** Check runs (GitHub Actions, apps) and the older commit statuses, as one list. */
const readChecks = async (call: GitHostOptions["call"], commit: string): Promise<unknown> => {
  try {
    const [runs, status] = await Promise.all([
      call("GET", `${commit}/check-runs?per_page=100`),
      call("GET", `${commit}/status?per_page=100`),
    ])
    return [
      ...list(record(runs)["check_runs"]).map((run) => {
        const { name, status: state, conclusion, html_url } = record(run)
        return { name, status: state, conclusion, url: html_url }
      }),
      ...list(record(status)["statuses"]).map((one) => {
        const { context, state, target_url } = record(one)
        return { name: context, status: "completed", conclusion: state, url: target_url }
      }),
    ]
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    // A token may read pull requests and not checks.
    return { error: `the checks could not be read: ${error.message}` }
  }
}

const showReview = (value: unknown) => {
  const { user, state, body, submitted_at } = record(value)
  return { user: record(user)["login"], state, body, submittedAt: submitted_at }
}

/** Without the fields that are undefined. */
const optional = <Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>
  }

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const checkName = (name: string): string => {
  if (!/^[A-Za-z0-9._-]+$/.test(name))
    throw new Refusal(`${name}: is not a valid name of an owner or repository`)
  return name
}
