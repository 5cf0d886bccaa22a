/** Pull requests and repositories: over GitHub's API with a token, or through `gh` when somebody is signed in there. */
import { type OutsideHandlers, Refusal } from "./handler-table.ts"

export type GitHost = Pick<
  OutsideHandlers,
  | "create-pr"
  | "update-pr"
  | "list-pull-requests"
  | "inspect-pull-request"
  | "list-repos"
  | "read-repo-file"
>

export interface GitHostOptions {
  /** One call of the host's API; refuses in words. */
  readonly call: (method: string, path: string, body?: object) => Promise<unknown>
  /** Where the session's checkout comes from, if it has one. */
  readonly origin: (session: string) => Promise<string | undefined>
}

export const NO_GIT_HOST =
  "no git host is set up: give GITHUB_TOKEN, or install gh and sign in with `gh auth login`"
const LIMIT_MS = 25_000

export const createGitHost = ({ call, origin }: GitHostOptions): GitHost => {
  const repoOf = async (session: string, owner?: string, repo?: string): Promise<string> => {
    if (owner !== undefined && repo !== undefined) return `${slug(owner)}/${slug(repo)}`
    const found = nameOf((await origin(session)) ?? "")
    if (found !== undefined) return found
    throw new Refusal("owner and repo: must be given, the checkout has no origin on a git host")
  }
  return {
    "create-pr": async ({ branch, title, body, base }, { session }) => {
      const repo = await repoOf(session)
      // The same request again finds what it made before.
      const owner = repo.split("/")[0]
      const known = list(
        await call(
          "GET",
          `/repos/${repo}/pulls?state=open&head=${owner}:${encodeURIComponent(branch)}`,
        ),
      )
      if (known[0]) return pullOf(known[0])
      const into =
        base ?? (text(record(await call("GET", `/repos/${repo}`))["default_branch"]) || "main")
      return pullOf(
        await call("POST", `/repos/${repo}/pulls`, { head: branch, base: into, title, body }),
      )
    },
    "update-pr": async ({ prNumber, labels, ...change }, { session }) => {
      const repo = await repoOf(session)
      if (labels) await call("PUT", `/repos/${repo}/issues/${prNumber}/labels`, { labels })
      return pullOf(await call("PATCH", `/repos/${repo}/pulls/${prNumber}`, change))
    },
    "list-pull-requests": async ({ owner, repo, state = "open", limit = 30 }, { session }) => {
      const name = await repoOf(session, owner, repo)
      return {
        pulls: list(
          await call(
            "GET",
            `/repos/${name}/pulls?state=${encodeURIComponent(state)}&per_page=${limit}`,
          ),
        ).map(pullOf),
      }
    },
    "inspect-pull-request": async (asked, { session }) => {
      const { prNumber, owner, repo, filesLimit = 100, commentsLimit = 50 } = asked
      const pull = `/repos/${await repoOf(session, owner, repo)}/pulls/${prNumber}`
      const [about, files, comments] = await Promise.all([
        call("GET", pull),
        call("GET", `${pull}/files?per_page=${Math.min(filesLimit, 100)}`),
        call(
          "GET",
          `${pull.replace("/pulls/", "/issues/")}/comments?per_page=${Math.min(commentsLimit, 100)}`,
        ),
      ])
      return { data: { ...pullOf(about), body: record(about)["body"], files, comments } }
    },
    "list-repos": async () => ({
      repos: list(await call("GET", "/user/repos?per_page=100&sort=pushed")).map((entry) => {
        const { full_name, clone_url, default_branch, private: hidden } = record(entry)
        return {
          fullName: full_name,
          cloneUrl: clone_url,
          defaultBranch: default_branch,
          private: hidden,
        }
      }),
    }),
    "read-repo-file": async ({ owner, repo, repoUrl, path, ref }, { session }) => {
      const named = repoUrl === undefined ? undefined : nameOf(repoUrl)
      if (repoUrl !== undefined && named === undefined)
        throw new Refusal("repoUrl: is no address on the git host")
      const name = named ?? (await repoOf(session, owner, repo))
      const query = ref === undefined ? "" : `?ref=${encodeURIComponent(ref)}`
      const file = record(
        await call(
          "GET",
          `/repos/${name}/contents/${path.split("/").map(encodeURIComponent).join("/")}${query}`,
        ),
      )
      if (typeof file["content"] !== "string") throw new Refusal(`${path} is no file`)
      const bytes = Uint8Array.from(atob(file["content"].replaceAll(/\s/g, "")), (byte) =>
        byte.charCodeAt(0),
      )
      const content = new TextDecoder().decode(bytes)
      return { content, encoding: "utf-8", path, repo: name, ...(ref !== undefined && { ref }) }
    },
  }
}

/** The host's API with a token. */
export const githubApi =
  (apiUrl: string, token: string): GitHostOptions["call"] =>
  async (method, path, body) => {
    const answer = await fetch(`${apiUrl}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        Accept: "application/vnd.github+json",
        "User-Agent": "sandpiper",
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(LIMIT_MS),
    })
    const value: unknown = await answer.json().catch(() => undefined)
    if (answer.ok) return value
    const said = record(value)["message"]
    throw new Refusal(
      `the git host answered ${answer.status}${typeof said === "string" ? `: ${said}` : ""}`,
    )
  }

const record = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const pullOf = (value: unknown) => {
  const { number, html_url, title, state } = record(value)
  return {
    number: Number(number),
    url: text(html_url),
    title: text(title),
    state: text(state),
  }
}

const slug = (name: string): string => {
  if (!/^[A-Za-z0-9._-]+$/.test(name))
    throw new Refusal(`${name}: is no name of an owner or a repository`)
  return name
}

/** `owner/name` out of any address of a repository. */
const nameOf = (address: string): string | undefined =>
  /[/:]([A-Za-z0-9._-]+\/[A-Za-z0-9._-]+?)(?:\.git)?\/?$/.exec(address.trim())?.[1]
