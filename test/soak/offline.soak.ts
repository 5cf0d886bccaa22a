/** The tests of prompt.test.ts again, in a network namespace that has only the loopback interface. */
import { expect, test } from "bun:test"
import { repositoryRoot } from "../kit/runner.ts"

const TESTS = ["test", "--timeout", "100000", "test/e2e/prompt.test.ts"]

test("prompts complete without a network and without waiting for network timeouts", async () => {
  // Root may create a network namespace directly; another user needs a user namespace first.
  const unshare = process.getuid?.() === 0 ? ["unshare", "-n"] : ["unshare", "-rn"]
  const inside = `
    await import("./test/kit/loopback.ts")
    const devices = (await Bun.file("/proc/self/net/dev").text()).match(/^ *\\w+(?=:)/gm)
    if (devices?.map((name) => name.trim()).join() !== "lo") throw new Error("not alone: " + devices)
    const tests = Bun.spawn([process.execPath, ...${JSON.stringify(TESTS)}], { stdio: ["ignore", "inherit", "inherit"] })
    process.exit(await tests.exited)
  `
  const run = async (command: readonly string[]) => {
    const started = performance.now()
    const child = Bun.spawn([...command], {
      cwd: repositoryRoot,
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    })
    const [err, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
    return { err, code, ms: performance.now() - started }
  }
  // Both at the same time: a busy machine slows down both.
  const [alone, usual] = await Promise.all([
    run([...unshare, process.execPath, "-e", inside]),
    run([process.execPath, ...TESTS]),
  ])
  for (const { err, code } of [alone, usual]) {
    expect({ code, err }).toMatchObject({ code: 0 })
    expect(err).toContain(" 0 fail")
  }
  expect(alone.ms).toBeLessThan(1.5 * usual.ms + 10_000)
}, 240_000)
