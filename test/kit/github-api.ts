/**
 * A local GitHub: the REST routes that the hub calls, over repositories, pull requests, labels, reviews and checks in memory,
 * with GitHub's status codes and response shapes. A call without the token is refused.
 */
import { rm } from "node:fs/promises"
import { jwtVerify } from "jose"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface GithubPull {
  readonly number: number
  readonly head: { readonly ref: string; readonly sha: string }
  readonly base: { readonly ref: string }
  readonly html_url: string
  title: string
  body: string | null
  state: string
  labels: { readonly name: string }[]
}

export interface GithubRepository {
  readonly fullName: string
  readonly defaultBranch: string
  readonly isPrivate: boolean
  /** Path to content. */
  readonly files: Readonly<Record<string, string>>
  readonly pulls: GithubPull[]
}

/** An App whose installation tokens this GitHub accepts until the test expires them. Their stated life is for the client. */
export interface GithubApp {
  readonly id: string
  readonly publicKey: CryptoKey
  readonly installation: string
  readonly lifeMs: number
}

export interface IssuedByApp {
  readonly token: string
  readonly repositories: readonly string[]
  readonly expiresAt: number
}

type Fields = Readonly<Record<string, unknown>>

export interface GithubApi {
  readonly url: string
  /** A Unix socket with the same API, for `gh`. */
  readonly socket: string
  readonly calls: string[]
  /** The bodies of the calls that change something, in their order. */
  readonly changes: readonly { readonly call: string; readonly fields: Fields }[]
  readonly issued: readonly IssuedByApp[]
  /** What every issued token was used for: the token's number and the call. */
  readonly used: readonly string[]
  /** Ends the validity of all tokens that were issued. */
  readonly expire: () => void
  readonly repository: (fullName: string) => GithubRepository
  readonly openPull: (fullName: string, head: string, title: string) => GithubPull
  readonly stop: () => Promise<void>
}

export const GITHUB_TOKEN = "ghp_token_of_the_tests_0123456789abcdef"

export const startGithubApi = (
  given: readonly Omit<GithubRepository, "pulls">[],
  { app }: { readonly app?: GithubApp } = {},
): GithubApi => {
  const calls: string[] = []
  const changes: { readonly call: string; readonly fields: Fields }[] = []
  const issued: IssuedByApp[] = []
  const used: string[] = []
  let valid: readonly IssuedByApp[] = []

  const issueToken = async (request: Request, bearer: string): Promise<Response> => {
    const verified =
      app && (await jwtVerify(bearer, app.publicKey, { issuer: app.id }).catch(() => undefined))
    if (!app || !verified) return refuse(401, "A JSON web token could not be decoded")
    const { repositories: names = [] } = (await request.json()) as { repositories?: string[] }
    const token = {
      token: `ghs_${crypto.randomUUID()}`,
      repositories: names,
      expiresAt: Date.now() + app.lifeMs,
    }
    issued.push(token)
    valid = [...valid, token]
    return Response.json(
      { token: token.token, expires_at: new Date(token.expiresAt).toISOString() },
      { status: 201 },
    )
  }
  const isAccepted = (bearer: string, call: string): boolean => {
    const found = valid.find(({ token }) => token === bearer)
    if (found) used.push(`${issued.indexOf(found) + 1} ${call}`)
    return found !== undefined || bearer === GITHUB_TOKEN
  }
  const repositories = new Map(
    given.map((repository): [string, GithubRepository] => [
      repository.fullName,
      { ...repository, pulls: [] },
    ]),
  )
  const repository = (fullName: string) => {
    const found = repositories.get(fullName)
    if (!found) throw new Error(`the test has no repository ${fullName}`)
    return found
  }
  const addPull = ({ fullName, pulls }: GithubRepository, fields: Fields): GithubPull => {
    const number = pulls.length + 1
    const head = String(fields["head"])
    const pull = {
      number,
      head: { ref: head, sha: `sha-of-${head}` },
      base: { ref: String(fields["base"]) },
      html_url: `https://github.com/${fullName}/pull/${number}`,
      title: String(fields["title"]),
      body: typeof fields["body"] === "string" ? fields["body"] : null,
      state: "open",
      labels: [],
    }
    pulls.push(pull)
    return pull
  }

  const pullRoute = (found: GithubRepository, pull: GithubPull, rest: string, method: string) => {
    if (rest === "") return pull
    if (rest === "files")
      return Object.keys(found.files).map((filename) => ({ filename, status: "modified" }))
    if (rest === "reviews")
      return [
        { id: 1, user: { login: "ann" }, state: "APPROVED", body: `review of ${pull.number}` },
      ]
    return method === "GET" && rest === "comments" ? [] : undefined
  }

  const repositoryRoute = (
    found: GithubRepository,
    method: string,
    rest: string,
    query: URLSearchParams,
    fields: Fields,
  ): unknown => {
    if (rest === "") return showRepository(found)
    if (rest === "pulls" && method === "POST") {
      if (fields["head"] === fields["base"])
        return refuseFields({
          resource: "PullRequest",
          code: "custom",
          message: `No commits between ${String(fields["base"])} and ${String(fields["head"])}`,
        })
      const isOpen = found.pulls.some(
        ({ head, state }) => head.ref === fields["head"] && state === "open",
      )
      return isOpen
        ? refuse(422, `A pull request already exists for ${String(fields["head"])}.`)
        : Response.json(addPull(found, fields), { status: 201 })
    }
    if (rest === "pulls") {
      const head = query.get("head")?.split(":")[1]
      const state = query.get("state") ?? "open"
      return found.pulls.filter(
        (pull) =>
          (head === undefined || pull.head.ref === head) &&
          (state === "all" || pull.state === state),
      )
    }
    const [, part, id = "", more = ""] = /^(pulls|issues)\/(\d+)\/?(.*)$/.exec(rest) ?? []
    const pull = found.pulls.find(({ number }) => number === Number(id))
    if (pull && part === "issues" && more === "labels" && method === "PUT") {
      if ((fields["labels"] as string[]).some((name) => name.length > 50))
        return refuseFields({ resource: "Label", field: "name", code: "invalid" })
      pull.labels = (fields["labels"] as string[]).map((name) => ({ name }))
      return pull.labels
    }
    if (pull && part === "issues" && more === "comments")
      return [{ id: 1, user: { login: "ann" }, body: `comment on ${pull.number}` }]
    if (pull && part === "pulls" && more === "" && method === "PATCH") {
      if (fields["state"] === "open" && pull.head.ref === "deleted")
        return refuseFields("state cannot be changed. The deleted branch was deleted.")
      return Object.assign(pull, fields)
    }
    if (pull && part === "pulls") return pullRoute(found, pull, more, method)
    const ref = /^commits\/([^/]+)\/(check-runs|status)$/.exec(rest)
    if (ref?.[2] === "check-runs")
      return {
        total_count: 1,
        check_runs: [{ id: 1, name: "build", status: "completed", conclusion: "success" }],
      }
    if (ref) return { state: "success", statuses: [] }
    const path = rest.startsWith("contents/") ? decodeURIComponent(rest.slice(9)) : ""
    const content = found.files[path]
    return content === undefined
      ? undefined
      : { type: "file", path, encoding: "base64", content: Buffer.from(content).toString("base64") }
  }

  const answer = async (request: Request): Promise<Response> => {
    const { pathname, search, searchParams } = new URL(request.url)
    calls.push(`${request.method} ${pathname}${search}`)
    const authorization = request.headers.get("authorization") ?? ""
    const [, bearer = ""] = /^(?:Bearer|token) (.+)$/.exec(authorization) ?? []
    if (app && pathname === `/app/installations/${app.installation}/access_tokens`)
      return issueToken(request, bearer)
    if (!isAccepted(bearer, `${request.method} ${pathname}`)) return refuse(401, "Bad credentials")
    if (pathname === "/user/repos")
      return Response.json([...repositories.values()].map(showRepository))
    const [, fullName = "", rest = ""] = /^\/repos\/([^/]+\/[^/]+)\/?(.*)$/.exec(pathname) ?? []
    const found = repositories.get(fullName)
    const fields = request.method === "GET" ? {} : ((await request.json()) as Fields)
    if (request.method !== "GET") changes.push({ call: `${request.method} ${pathname}`, fields })
    const result = found && repositoryRoute(found, request.method, rest, searchParams, fields)
    if (result instanceof Response) return result
    return result === undefined ? refuse(404, "Not Found") : Response.json(result)
  }
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer })
  const socket = join(tmpdir(), `github-${crypto.randomUUID()}.sock`)
  const local = Bun.serve({ unix: socket, fetch: answer })
  return {
    url: server.url.origin,
    socket,
    calls,
    changes,
    issued,
    used,
    expire: () => {
      valid = []
    },
    repository,
    openPull: (fullName, head, title) =>
      addPull(repository(fullName), { head, title, base: repository(fullName).defaultBranch }),
    stop: async () => {
      await Promise.all([server.stop(true), local.stop(true)])
      await rm(socket, { force: true })
    },
  }
}

const refuse = (status: number, message: string) => Response.json({ message }, { status })

/** What is wrong is in `errors`, as objects or texts. */
const refuseFields = (error: object | string) =>
  Response.json({ message: "Validation Failed", errors: [error] }, { status: 422 })

const showRepository = ({ fullName, defaultBranch, isPrivate }: GithubRepository) => ({
  full_name: fullName,
  clone_url: `https://github.com/${fullName}.git`,
  default_branch: defaultBranch,
  private: isPrivate,
})
