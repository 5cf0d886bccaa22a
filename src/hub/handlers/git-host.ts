/** Pull requests and repositories of a git host, over GitHub's REST API. The host decides how a call is made: with a token or with `gh`. */
import type { RequestResult } from "../../wire/frames/index.ts"
import { ownerAndName } from "../../lib/git-url.ts"
import { type CallGitHost, GitHostError, list, record, text } from "./git-api.ts"
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

type PullRequest = RequestResult<"update-pr">

export interface GitHostOptions {
  readonly call: CallGitHost
  /** The `origin` URL of the session's checkout. */
  readonly origin: (session: string) => Promise<string | undefined>
  /** Tells the session of a pull request that was opened, found or changed for it. */
  readonly showPull: (session: string, pull: PullRequest) => void | Promise<void>
  /** Absent if the owner has no installation of a GitHub App. */
  readonly issueToken?: IssueToken | undefined
  /** Waits between attempts; a timer of the runtime if it is not given. */
  readonly wait?: (ms: number) => Promise<void>
}

export const NO_GIT_HOST =
  "no git host is set up: set GITHUB_TOKEN, or install gh and sign in with `gh auth login`"
const NO_GITHUB_APP =
  "no short-lived git tokens are issued for this session: the operator sets GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY and GITHUB_APP_INSTALLATIONS"
/** The only source of repositories, as `list-repos` names it. */
const SOURCE = "github"
const FULL_NAME = /^[\w.-]+\/[\w.-]+$/

/** GitHub answers 422 if there is an open pull request of the branch already. */
const isConflict = (error: unknown): boolean =>
  error instanceof GitHostError && error.status === 422

/** A tool's call has no repository in its arguments unless `canName`. */
const noRepository = (canName: boolean): Refusal =>
  new Refusal(
    `this session has no repository on a git host: the working directory has no git remote named origin. Clone the repository into the working directory, or add its address with \`git remote add origin <url>\`, and call again.${canName ? " Or give owner and repo." : ""}`,
  )

/** Within the deadline of a request, which is 30 s. */
const RETRY_MS = [400, 1600] as const

export const createGitHost = ({
  call: callOnce,
  origin,
  showPull,
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
  const call: CallGitHost = (method, path, body) => retrying(() => callOnce(method, path, body))

  const repoOf = async (
    session: string,
    { owner, repo, checkout }: { owner?: string; repo?: string; checkout?: string },
    { canName }: { readonly canName: boolean } = { canName: true },
  ): Promise<string> => {
    if (owner !== undefined && repo !== undefined) return `${checkName(owner)}/${checkName(repo)}`
    if (checkout !== undefined) return checkout.split("/").map(checkName).join("/")
    const found = ownerAndName((await origin(session)) ?? "")
    if (found !== undefined) return found
    throw noRepository(canName)
  }
  const repoOfCheckout = (session: string, checkout: string | undefined) =>
    repoOf(session, optional({ checkout }), { canName: false })
  const shown = async <Pull extends PullRequest>(session: string, pull: Pull): Promise<Pull> => {
    await showPull(session, pull)
    return pull
  }
  return {
    "create-pr": async ({ branch, title, body, base, checkout }, { session }) => {
      const repo = await repoOfCheckout(session, checkout)
      const head = `${repo.split("/")[0]}:${encodeURIComponent(branch)}`
      // The API has no idempotency key: a repeated call looks for the pull request that the first one opened.
      const findOpen = async () => {
        const [known] = list(await call("GET", `/repos/${repo}/pulls?state=open&head=${head}`))
        return known
      }
      const known = await findOpen()
      if (known !== undefined) return shown(session, { ...pullOf(known), existed: true })
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
      return shown(session, pullOf(await retrying(open, findOpen)))
    },
    "update-pr": async ({ prNumber, labels, checkout, title, body, state }, { session }) => {
      const repo = await repoOfCheckout(session, checkout)
      const pull = `/repos/${repo}/pulls/${prNumber}`
      const change = optional({ title, body, state })
      const changed = Object.keys(change)
      // Before the labels: a refused change leaves them as they were.
      const first =
        changed.length > 0 && (await shown(session, pullOf(await call("PATCH", pull, change))))
      if (labels) {
        await call("PUT", `/repos/${repo}/issues/${prNumber}/labels`, { labels }).catch(
          saying(changed),
        )
      }
      return first || shown(session, pullOf(await call("GET", pull)))
    },
    "list-pull-requests": async ({ state = "open", limit = 30, ...target }, { session }) => {
      const name = await repoOf(session, optional(target))
      return {
        pulls: list(
          await call(
            "GET",
            `/repos/${name}/pulls?state=${encodeURIComponent(state)}&per_page=${limit}`,
          ),
        ).map(pullOf),
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
      const { body } = record(details)
      return {
        data: {
          ...pullOf(details),
          body,
          checks,
          reviews: list(reviews).map(showReview),
          files,
          comments,
        },
      }
    },
    "git-token": async ({ origin: of, repositories }) => {
      const isNamed = repositories.length > 0 && repositories.every((name) => FULL_NAME.test(name))
      if (!isNamed) throw new Refusal("repositories: must name at least one, as owner/name")
      return issueToken(of, repositories)
    },
    "list-repos": async ({ source }) => {
      if (source !== undefined && source.toLowerCase() !== SOURCE)
        throw new Refusal(`source: this hub lists the repositories of ${SOURCE} only`)
      const known = list(await call("GET", "/user/repos?per_page=100&sort=pushed"))
      return {
        repos: known.map((entry) => {
          const { full_name, clone_url, default_branch, private: isPrivate } = record(entry)
          return {
            fullName: full_name,
            cloneUrl: clone_url,
            defaultBranch: default_branch,
            private: isPrivate,
          }
        }),
      }
    },
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

/** For a call after which some fields are changed already: its refusal says so. */
const saying =
  (changed: readonly string[]) =>
  (error: unknown): never => {
    // A call that is repeated later changes the same fields again.
    if (changed.length === 0 || !(error instanceof GitHostError) || error.retryable) throw error
    const [verb, fields] = [changed.length === 1 ? "was" : "were", changed.join(", ")]
    throw new GitHostError(
      `${fields}: ${verb} changed. labels: were not changed: ${error.message}`,
      false,
      error.status,
    )
  }

const pullOf = (value: unknown): PullRequest => {
  const { number, html_url, title, state } = record(value)
  return {
    number: Number(number),
    url: text(html_url),
    title: text(title),
    state: text(state),
  }
}

/** Check runs (GitHub Actions, apps) and the older commit statuses, as one list. */
const readChecks = async (call: CallGitHost, commit: string): Promise<unknown> => {
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
