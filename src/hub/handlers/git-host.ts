/** Pull requests and repositories of a git host, over GitHub's REST API. The host decides how a call is made: with a token or with `gh`. */
import { type ExternalHandlers, Refusal } from "./handler-table.ts"

export type GitHost = Pick<
  ExternalHandlers,
  | "create-pr"
  | "update-pr"
  | "list-pull-requests"
  | "inspect-pull-request"
  | "list-repos"
  | "read-repo-file"
>

export interface GitHostOptions {
  /** One API call. Throws a Refusal with the reason when the git host rejects it. */
  readonly call: (method: string, path: string, body?: object) => Promise<unknown>
  /** The `origin` URL of the session's checkout. */
  readonly origin: (session: string) => Promise<string | undefined>
}

export const NO_GIT_HOST =
  "no git host is set up: set GITHUB_TOKEN, or install gh and sign in with `gh auth login`"
const API_TIMEOUT_MS = 25_000

export const createGitHost = ({ call, origin }: GitHostOptions): GitHost => {
  const repoOf = async (session: string, owner?: string, repo?: string): Promise<string> => {
    if (owner !== undefined && repo !== undefined) return `${checkName(owner)}/${checkName(repo)}`
    const found = repositoryName((await origin(session)) ?? "")
    if (found !== undefined) return found
    throw new Refusal(
      "owner and repo: are required, because the checkout has no origin on a git host",
    )
  }
  return {
    "create-pr": async ({ branch, title, body, base }, { session }) => {
      const repo = await repoOf(session)
      // A retried request finds the pull request that the first attempt opened.
      const owner = repo.split("/")[0]
      const known = list(
        await call(
          "GET",
          `/repos/${repo}/pulls?state=open&head=${owner}:${encodeURIComponent(branch)}`,
        ),
      )
      if (known[0]) return showPull(known[0])
      const baseBranch =
        base ?? (text(record(await call("GET", `/repos/${repo}`))["default_branch"]) || "main")
      return showPull(
        await call("POST", `/repos/${repo}/pulls`, { head: branch, base: baseBranch, title, body }),
      )
    },
    "update-pr": async ({ prNumber, labels, ...change }, { session }) => {
      const repo = await repoOf(session)
      if (labels) await call("PUT", `/repos/${repo}/issues/${prNumber}/labels`, { labels })
      return showPull(await call("PATCH", `/repos/${repo}/pulls/${prNumber}`, change))
    },
    "list-pull-requests": async ({ owner, repo, state = "open", limit = 30 }, { session }) => {
      const name = await repoOf(session, owner, repo)
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
      const { prNumber, owner, repo, filesLimit = 100, commentsLimit = 50 } = fields
      const pull = `/repos/${await repoOf(session, owner, repo)}/pulls/${prNumber}`
      const [details, files, comments] = await Promise.all([
        call("GET", pull),
        call("GET", `${pull}/files?per_page=${Math.min(filesLimit, 100)}`),
        call(
          "GET",
          `${pull.replace("/pulls/", "/issues/")}/comments?per_page=${Math.min(commentsLimit, 100)}`,
        ),
      ])
      return { data: { ...showPull(details), body: record(details)["body"], files, comments } }
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
    "read-repo-file": async ({ owner, repo, repoUrl, path, ref }, { session }) => {
      const fromUrl = repoUrl === undefined ? undefined : repositoryName(repoUrl)
      if (repoUrl !== undefined && fromUrl === undefined)
        throw new Refusal("repoUrl: is not the URL of a repository")
      const name = fromUrl ?? (await repoOf(session, owner, repo))
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
    })
    const value: unknown = await response.json().catch(() => undefined)
    if (response.ok) return value
    const message = record(value)["message"]
    throw new Refusal(
      `the git host answered ${response.status}${typeof message === "string" ? `: ${message}` : ""}`,
    )
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

const checkName = (name: string): string => {
  if (!/^[A-Za-z0-9._-]+$/.test(name))
    throw new Refusal(`${name}: is not a valid name of an owner or repository`)
  return name
}

/** `owner/name` from an HTTPS or SSH URL. */
const repositoryName = (address: string): string | undefined =>
  /[/:]([A-Za-z0-9._-]+\/[A-Za-z0-9._-]+?)(?:\.git)?\/?$/.exec(address.trim())?.[1]
