/** The provider of the broker bench: replies at once, to `/responses` with a stream of two events. Prints its address. */
const chunk = new TextEncoder().encode(process.env["CHUNK"] ?? "data: x\n\n")

const provider = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: async (request) => {
    await request.arrayBuffer()
    if (!request.url.endsWith("/responses")) return Response.json({ ok: true })
    const stream = new ReadableStream({
      start: async (controller) => {
        controller.enqueue(chunk)
        await Bun.sleep(0)
        controller.enqueue(chunk)
        controller.close()
      },
    })
    return new Response(stream, { headers: { "content-type": "text/event-stream" } })
  },
})
process.stdout.write(`${provider.url.origin}\n`)
