/** No network at all: the same prompts, in a network namespace that holds nothing but loopback. */
import { expect, test } from "bun:test"
import { repositoryRoot } from "../kit/runner.ts"

test("the whole path works without a network, and the first prompt waits for nothing", async () => {
  // As root the namespace is enough; a user needs one of their own to make it in.
  const unshare = process.getuid?.() === 0 ? ["unshare", "-n"] : ["unshare", "-rn"]
  const inside = `
    await import("./test/kit/loopback.ts")
    const devices = (await Bun.file("/proc/self/net/dev").text()).match(/^ *\\w+(?=:)/gm)
    if (devices?.map((name) => name.trim()).join() !== "lo") throw new Error("not alone: " + devices)
    const tests = Bun.spawn([process.execPath, "test", "--timeout", "60000", "test/e2e/prompt.test.ts"], { stdio: ["ignore", "inherit", "inherit"] })
    process.exit(await tests.exited)
  `
  const started = Date.now()
  const child = Bun.spawn([...unshare, process.execPath, "-e", inside], {
    cwd: repositoryRoot,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  const [err, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  expect({ code, err }).toMatchObject({ code: 0 })
  expect(err).toContain(" 0 fail")
  expect(Date.now() - started).toBeLessThan(45_000)
})
