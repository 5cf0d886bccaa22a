/** A call to a sandbox provider that is silent for longer than a connection may be idle, such as a large snapshot. */
import { expect, test } from "bun:test"
import { join } from "node:path"

const SILENT_MS = 14_000

test("a call may take as long as its own deadline says, whatever the idle time of connections is", async () => {
  const slow = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async () => {
      // Sleep: the server is silent on purpose.
      await Bun.sleep(SILENT_MS)
      return Response.json({ done: true })
    },
  })
  const file = join(import.meta.dir, "../../src/fleet/providers/http.ts")
  const program = `
    import { createHttpApi } from ${JSON.stringify(file)}
    const api = createHttpApi({ base: ${JSON.stringify(slow.url.origin)}, secrets: () => [] })
    const done = await api.done({ method: "POST", path: "/commit", deadlineMs: 60_000 })
    console.log(JSON.stringify(done))`
  const child = Bun.spawn([process.execPath, "-e", program], {
    // Bun rounds it up to eight seconds. Without it, it is five minutes, which is less than a snapshot may take.
    env: { ...process.env, BUN_CONFIG_HTTP_IDLE_TIMEOUT: "1" },
    stdout: "pipe",
  })
  const text = await new Response(child.stdout).text()
  await slow.stop(true)
  expect(JSON.parse(text)).toEqual({ is: "ok" })
})
