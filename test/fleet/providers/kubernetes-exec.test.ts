/** Commands in a pod whose time is over before they begin. */
import { expect, test } from "bun:test"
import { join } from "node:path"

test("a command whose limit has passed is in doubt, and leaves no error that would end the process", async () => {
  const program = `
    import { runInPod } from ${JSON.stringify(join(import.meta.dir, "../../../src/fleet/providers/kubernetes-exec.ts"))}
    const limit = AbortSignal.abort()
    console.log(JSON.stringify(await runInPod({ url: "ws://127.0.0.1:9/", headers: {}, ca: undefined, limit })))`
  // The program ends when no socket is left, so an error of one would come before.
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "pipe" })
  const [code, out, error] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  expect(error).toBe("")
  expect(JSON.parse(out)).toEqual({ is: "unknown", why: "the command did not end in time" })
  expect(code).toBe(0)
})
