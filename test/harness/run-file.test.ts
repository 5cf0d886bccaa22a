/** What one test file prints, leaves behind and returns, seen with real test files in a process of their own. */
import { expect, test } from "bun:test"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { readProcess } from "../../src/lib/process-identity.ts"
import { runFile } from "./run-file.ts"
import { repositoryRoot } from "./suites.ts"

const run = async (
  source: string,
  options: { seed?: number; nice?: number; endMs?: number } = {},
) => {
  const folder = await mkdtemp(join(tmpdir(), "run-file-"))
  try {
    const file = join(folder, "one.test.ts")
    await writeFile(file, `import { expect, test } from "bun:test"\n${source}`)
    return await runFile(relative(repositoryRoot, file), { timeoutMs: 60_000, ...options })
  } finally {
    await rm(folder, { recursive: true })
  }
}

const failuresOf = ({ tests }: Awaited<ReturnType<typeof run>>) =>
  tests.filter(({ state }) => state === "fail").map(({ name, message }) => [name, message])

test("a file whose tests pass and that leaves nothing has no failure", async () => {
  const result = await run(`test("adds", () => expect(1 + 1).toBe(2))`)
  expect(failuresOf(result)).toEqual([])
  expect(result.tests).toMatchObject([{ name: "adds", state: "pass", assertions: 1 }])
})

test("a failed test is reported with the message of its assertion and the output of the file", async () => {
  const result = await run(`test("adds", () => { console.log("so far"); expect(1).toBe(2) })`)
  const [[name, message] = []] = failuresOf(result)
  expect(name).toBe("adds")
  expect(message).toContain("Expected: 2")
  expect(result.output).toContain("so far")
})

test("a process that a file leaves behind fails the file and is ended", async () => {
  const source = `
    test("starts", () => {
      const child = Bun.spawn(["sleep", "4321"], { env: { PATH: process.env.PATH ?? "" } })
      child.unref()
      expect(child.pid).toBeGreaterThan(0)
    })`
  const result = await run(source, { endMs: 0 })
  const [[name, message = ""] = []] = failuresOf(result)
  expect(name).toBe("(leaves nothing behind)")
  const pid = Number(/^process (\d+): sleep 4321$/m.exec(message)?.[1])
  expect(pid).toBeGreaterThan(1)
  expect(readProcess(pid)?.isZombie ?? true).toBe(true)
})

test("a file that is left in the temporary folder fails the file that made it", async () => {
  const result = await run(`
    import { mkdtempSync } from "node:fs"
    import { tmpdir } from "node:os"
    test("makes", () => expect(mkdtempSync(tmpdir() + "/left-")).toContain("left-"))`)
  const [[name, message] = []] = failuresOf(result)
  expect(name).toBe("(leaves nothing behind)")
  expect(message).toMatch(/^left behind:\nfile left-\w+$/)
})

test("a file whose process is killed, and a file without a test, fail", async () => {
  expect(
    failuresOf(await run(`test("ends", () => void process.kill(process.pid, "SIGKILL"))`)),
  ).toEqual([["(the file)", "the process of the tests was ended by SIGKILL"]])
  expect(failuresOf(await run(""))).toEqual([["(the file)", "no test ran"]])
})

test("a seed changes the order of the tests in a file", async () => {
  const source = Array.from(
    { length: 12 },
    (_, index) => `test("number ${index}", () => expect(${index}).toBe(${index}))`,
  ).join("\n")
  const namesOf = async (seed?: number) =>
    (await run(source, seed === undefined ? {} : { seed, nice: 5 })).tests.map(({ name }) => name)
  const [inOrder, shuffled] = await Promise.all([namesOf(), namesOf(7)])
  expect(inOrder.toSorted()).toEqual(shuffled.toSorted())
  expect(inOrder).not.toEqual(shuffled)
})
