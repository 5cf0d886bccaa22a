/** Users: lookup, the agent's user, and reachable directories. */
import { describe, expect, test } from "bun:test"
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  chooseAgentUser,
  firstClosed,
  handOver,
  parsePasswd,
} from "../../../src/runner/host/users.ts"

const passwd =
  "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1001:Agent,,,:/home/agent:/bin/bash\nbad:x\n"

test("a user is found by the complete name", () => {
  expect(parsePasswd(passwd, "agent")).toEqual({
    name: "agent",
    uid: 1000,
    gid: 1001,
    home: "/home/agent",
  })
  for (const name of ["age", "nobody", "bad"]) expect(parsePasswd(passwd, name)).toBeUndefined()
})

describe("the agent's user", () => {
  test("a runner that is not root has no agent user", () => {
    expect(chooseAgentUser("no-such-user", false)).toBeUndefined()
  })
  test("an agent user that does not exist is an error", () => {
    expect(() => chooseAgentUser("no-such-user", true)).toThrow("no user no-such-user")
  })
})

test("an unreachable directory is rejected with the parent directory that the user may not enter", async () => {
  const root = await mkdtemp(join(tmpdir(), "users-"))
  const user = { name: "someone", uid: 4_000_000, gid: 4_000_000, home: "/" }
  await mkdir(join(root, "open/inside"), { recursive: true })
  await chmod(root, 0o700)
  expect(firstClosed(join(root, "open/inside"), user)).toBe(root)
  const refused = handOver(join(root, "open/inside"), user)
  expect(await refused.catch((error: Error) => error.message)).toContain(`it may not enter ${root}`)
  await chmod(root, 0o711)
  expect(firstClosed(join(root, "open/inside"), user)).toBeUndefined()
  await rm(root, { recursive: true })
})
