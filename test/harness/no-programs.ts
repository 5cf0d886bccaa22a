/** Loaded before the tests of `npm run test:fast`: a test that starts a program fails there with what to do. */
import { mock } from "bun:test"
import childProcess from "node:child_process"

const refuse = (command: unknown): never => {
  const name = Array.isArray(command) ? command.join(" ") : JSON.stringify(command)
  throw new Error(
    `test:fast starts no program (${name}): add the file to STARTS_PROGRAMS in test/harness/fast-files.ts`,
  )
}

Object.assign(Bun, { spawn: refuse, spawnSync: refuse })
const refused = Object.fromEntries(
  ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"].map((name) => [
    name,
    refuse,
  ]),
)
await mock.module("node:child_process", () => ({
  ...childProcess,
  ...refused,
  default: { ...childProcess, ...refused },
}))
