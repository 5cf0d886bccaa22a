/** The `gh` in front of the real one: it gives one run a token of the runner, and leaves a login of the agent's own. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { wrapperFolder, writeGhWrapper } from "../../../src/runner/host/gh-wrapper.ts"
import { runToEnd } from "../../kit/run-to-end.ts"

const SYSTEM = "/usr/bin:/bin"
let root: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "gh wrapper's "))
  await mkdir(join(root, "installed"))
  await writeFile(
    join(root, "installed/gh"),
    `#!/bin/sh\necho "gh got $* with \${GH_TOKEN:-none} \${GH_ENTERPRISE_TOKEN:-none}"\n`,
    { mode: 0o755 },
  )
  await writeFile(
    join(root, "helper"),
    `#!/bin/sh\nread -r protocol; read -r host\ncase "$host" in host=github.com|host=ghe.example) echo username=oauth2; echo "password=token-for-$host-by-$1";; esac\n`,
    { mode: 0o755 },
  )
  await writeGhWrapper(root, `'${join(root, "helper").replaceAll("'", "'\\''")}'`)
})
afterAll(() => rm(root, { recursive: true, force: true }))

const gh = async (env: Record<string, string>, ...before: readonly string[]) => {
  const folders = [...before, wrapperFolder(root), join(root, "installed"), SYSTEM]
  const PATH = folders.join(":")
  const { out, err, code } = await runToEnd(["sh", "-c", 'gh "$@"', "gh", "api", "a b"], {
    env: { PATH, ...env },
  })
  return { out: out.trim(), err, code }
}

test("gh gets the token of the runner for this run, with its arguments unchanged", async () => {
  expect((await gh({})).out).toBe("gh got api a b with token-for-host=github.com-by-get none")
  // Also if another folder comes first.
  expect((await gh({}, "/nonexistent")).out).toContain("token-for-host=github.com")
})

test("another host gets its own token, and a host without one gets none", async () => {
  expect((await gh({ GH_HOST: "ghe.example" })).out).toBe(
    "gh got api a b with none token-for-host=ghe.example-by-get",
  )
  expect((await gh({ GH_HOST: "evil.example" })).out).toBe("gh got api a b with none none")
})

test("a token of the agent's own is left", async () => {
  expect((await gh({ GH_TOKEN: "mine" })).out).toBe("gh got api a b with mine none")
})

test("without an installed gh the wrapper says so", async () => {
  const folder = join(root, "few")
  await mkdir(folder)
  for (const name of ["sh", "sed"]) await Bun.$`ln -s ${Bun.which(name)} ${join(folder, name)}`
  const { err, code } = await runToEnd(["sh", "-c", "gh api"], {
    env: { PATH: `${wrapperFolder(root)}:${folder}` },
  })
  expect(err).toBe("gh is not installed\n")
  expect(code).toBe(127)
})
