/** A fake of the Parallel API with the routes that the tools use. */

export const startParallel = () => {
  const json = (body: unknown) => Response.json(body)
  const page = { url: "https://page.example", title: "A page" }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    routes: {
      "/v1/search": () => json({ results: [{ ...page, excerpts: ["an excerpt"] }] }),
      "/v1/extract": () => json({ results: [{ ...page, full_content: "all of it" }] }),
      "/v1/tasks/runs": async (request) => {
        const { input } = (await request.json()) as { input: unknown }
        const run_id = typeof input === "string" ? "text" : "json"
        return json({ run_id, status: "completed" })
      },
      "/v1/tasks/runs/text/result": () => json({ output: { content: "Because." } }),
      "/v1/tasks/runs/json/result": () => json({ output: { content: { founded: "1999" } } }),
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}
