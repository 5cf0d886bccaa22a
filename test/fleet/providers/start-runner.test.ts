/** The script that starts the runner in a cloud's sandbox, run for real with a stand-in for the runner, which ends with its test. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { argvOf, startRunner, startScript } from "../../../src/fleet/providers/start-runner.ts"
import { untilTrue } from "../../kit/until-true.ts"

const folder = mkdtempSync(join(tmpdir(), "start-runner-"))
const pidFile = join(folder, "pid")
const program = join(folder, "sandpiper")
const started: number[] = []
beforeAll(async () => {
  // The name of a process is the name of its program.
  copyFileSync("/bin/sleep", program)
  writeFileSync(
    join(folder, "start.sh"),
    `#!/bin/sh\necho $$ > ${pidFile}\nexec ${program} 600\n`,
    { mode: 0o755 },
  )
  await Bun.$`chmod 755 ${program}`.quiet()
})
afterEach(() => {
  for (const pid of started.splice(0)) if (isAlive(pid)) process.kill(pid, "SIGKILL")
  rmSync(pidFile, { force: true })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const isAlive = (pid: number): boolean => {
  const stat = `/proc/${pid}/stat`
  return existsSync(stat) && !/\) Z /.test(readFileSync(stat, "utf8"))
}
const commandName = (pid: number) =>
  existsSync(`/proc/${pid}/comm`) ? readFileSync(`/proc/${pid}/comm`, "utf8").trim() : ""
const until = (holds: () => boolean) => untilTrue(holds, "true condition")
const pidIn = () => (existsSync(pidFile) ? Number(readFileSync(pidFile, "utf8")) : 0)
const start = async (former: number) => {
  const paths = { start: join(folder, "start.sh"), pidFile, log: join(folder, "log") }
  const child = Bun.spawn(["/bin/sh", "-c", startScript(paths)])
  expect(await child.exited).toBe(0)
  await until(() => pidIn() !== former && commandName(pidIn()) === "sandpiper")
  started.push(pidIn())
  return pidIn()
}

test("the script ends while the runner runs, and the next start replaces that runner", async () => {
  const first = await start(0)
  const second = await start(first)
  await until(() => !isAlive(first))
  expect(isAlive(second)).toBe(true)
})

test("a process that is no runner is not killed although the file names its pid", async () => {
  const other = Bun.spawn(["sleep", "600"])
  started.push(other.pid)
  writeFileSync(pidFile, String(other.pid))
  await start(other.pid)
  expect(isAlive(other.pid)).toBe(true)
})

test("only the entry point of the image is replaced by the script", () => {
  expect(argvOf({ argv: ["/start.sh"] })).toBe(startRunner)
  expect(argvOf({ argv: ["echo", "/start.sh"] })).toEqual(["echo", "/start.sh"])
})
