/** The tests of prompt.test.ts again, in a network namespace that has only the loopback interface. */
import { expect, test } from "bun:test"
import { repositoryRoot } from "../kit/runner.ts"

test("prompts complete without a network and without waiting for network timeouts", async () => {
  // Root may create a network namespace directly; another user needs a user namespace first.
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
