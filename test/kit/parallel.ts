/** A fake of the Parallel API with the routes that the tools use. It refuses calls without a key and records the others. */

export const startParallel = () => {
  const calls: { readonly path: string; readonly body: unknown }[] = []
  const page = { url: "https://page.example", title: "A page" }
  const resultOf = (path: string, body: unknown): unknown => {
    switch (path) {
      case "/v1/search":
        return { results: [{ ...page, excerpts: ["an excerpt"] }] }
      case "/v1/extract":
        return { results: [{ ...page, full_content: "all of it" }] }
      case "/v1/tasks/runs": {
        const isText = typeof (body as { input: unknown }).input === "string"
        return { run_id: isText ? "text" : "json", status: "completed" }
      }
      case "/v1/tasks/runs/text/result":
        return { output: { content: "Because." } }
      case "/v1/tasks/runs/json/result":
        return { output: { content: { founded: "1999" } } }
      default:
        return undefined
    }
  }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (!request.headers.get("x-api-key")) return new Response("no key", { status: 401 })
      const body = request.method === "POST" ? await request.json() : undefined
      calls.push({ path: pathname, body })
      const result = resultOf(pathname, body)
      return result === undefined ? new Response("", { status: 404 }) : Response.json(result)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    /** Every accepted call, in order. */
    calls,
    stop: () => server.stop(true),
  }
}
