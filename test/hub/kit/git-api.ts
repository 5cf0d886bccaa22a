/** A git host's API that records its calls: on a port (with a token) or on a Unix socket (for `gh`). */
export interface GitApi {
  readonly calls: {
    readonly method: string
    readonly path: string
    readonly body: unknown
    readonly authorization: string | null
  }[]
  readonly pulls: Record<string, unknown>[]
  readonly url: string
  readonly stop: () => Promise<void>
}

export const startGitApi = (socket?: string): GitApi => {
  const calls: GitApi["calls"] = []
  const pulls: GitApi["pulls"] = []
  const answer = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url)
    const body =
      request.method === "GET" ? undefined : ((await request.json()) as Record<string, unknown>)
    const authorization = request.headers.get("authorization")
    calls.push({ method: request.method, path: pathname + search, body, authorization })
    if (pathname === "/repos/birds/heron") return Response.json({ default_branch: "trunk" })
    if (pathname === "/repos/birds/heron/pulls" && body?.["head"] === "empty")
      return Response.json(
        { message: "Validation Failed", errors: [{ message: "No commits on empty" }] },
        { status: 422 },
      )
    if (pathname === "/repos/birds/heron/pulls" && request.method === "POST") {
      const number = pulls.length + 1
      const made = { number, html_url: "https://host/pull/1", state: "open", ...body }
      pulls.push(made)
      return Response.json(made, { status: 201 })
    }
    if (pathname === "/repos/birds/heron/pulls")
      return Response.json(search.includes("head=birds:empty") ? [] : pulls)
    if (pathname === "/repos/birds/heron/contents/a%20b.txt") {
      return Response.json({ content: Buffer.from("grüße").toString("base64") })
    }
    return Response.json({ message: "Not Found" }, { status: 404 })
  }
  const server =
    socket === undefined
      ? Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer })
      : Bun.serve({ unix: socket, fetch: answer })
  return {
    calls,
    pulls,
    url: socket === undefined ? server.url.origin : "",
    stop: () => server.stop(true),
  }
}
