/** Env files in a real workspace with a real git repository. */
import { afterEach, expect, test } from "bun:test"
import { mkdir, readFile, stat, symlink } from "node:fs/promises"
import { join } from "node:path"
import type { Secrets } from "../../../src/runner/sandbox/secrets.ts"
import { SecretsError } from "../../../src/runner/sandbox/secrets-error.ts"
import { createTestServices, type TestServices } from "./services/kit.ts"

const values = new Map([
  ["op://v/db/url", "postgres://u:p@127.0.0.1/db"],
  ["op://v/odd/text", `it's "$5"`],
])
const secrets: Secrets = {
  isReference: (text) => text.startsWith("op://"),
  resolve: async (references) => {
    const missing = references.filter((reference) => !values.has(reference))
    if (missing.length > 0)
      throw new SecretsError("not-found", `there is no secret ${missing.join(", ")}`)
    return values
  },
  list: async () => [],
  inject: async () => ({ count: 0 }),
  run: async () => ({ exitCode: 0, stdout: "", stderr: "" }),
  fill: async () => {},
}

const kits: TestServices[] = []
const create = () => {
  const kit = createTestServices({ secrets })
  kits.push(kit)
  return { ...kit, envFiles: kit.ports.envFiles, path: (name: string) => join(kit.root, name) }
}
afterEach(async () => {
  for (const kit of kits.splice(0)) await kit.end()
})
const git = async (cwd: string, ...args: string[]) => {
  const child = Bun.spawn(["git", ...args], { cwd, stdout: "pipe", stderr: "ignore" })
  return new Response(child.stdout).text()
}

test("env files get the values of secrets, are private, and git does not list them", async () => {
  const { envFiles, path, root } = create()
  await git(root, "init", "-q")
  await mkdir(path("app"))
  const written = await envFiles.apply([
    { path: ".env", variables: { DATABASE_URL: "op://v/db/url", MODE: "test" } },
    { path: "app/.env.local", variables: { ODD: "op://v/odd/text", SPACE: "a b" } },
  ])
  expect(written).toEqual([".env", "app/.env.local"])
  expect(await readFile(path(".env"), "utf8")).toBe(
    "DATABASE_URL=postgres://u:p@127.0.0.1/db\nMODE=test\n",
  )
  expect((await stat(path(".env"))).mode & 0o777).toBe(0o600)
  const shell = Bun.spawn(["sh", "-c", '. ./app/.env.local; printf "%s|%s" "$ODD" "$SPACE"'], {
    cwd: root,
    stdout: "pipe",
  })
  expect(await new Response(shell.stdout).text()).toBe(`it's "$5"|a b`)
  expect(await git(root, "status", "--porcelain", "--untracked-files=all")).toBe("")
  await envFiles.apply([{ path: ".env", variables: {} }])
  expect((await git(root, "rev-parse", "--git-path", "info/exclude")).trim()).not.toBe("")
  const exclude = await readFile(path(".git/info/exclude"), "utf8")
  expect(exclude.match(/^\/\.env$/gm)).toHaveLength(1)
})

test("if one file or one secret is invalid, no file is written and the earlier ones stay", async () => {
  const { envFiles, path } = create()
  await symlink("/etc", path("link"))
  await envFiles.apply([{ path: "kept.env", variables: { A: "1" } }])
  for (const [bad, reason] of [
    [{ path: "../out.env", variables: {} }, "outside the workspace"],
    [{ path: "/etc/out.env", variables: {} }, "outside the workspace"],
    [{ path: "link/out.env", variables: {} }, "outside the workspace"],
    [{ path: ".git/config", variables: {} }, "git's own directory"],
    [{ path: "good.env", variables: {} }, "named twice"],
    [{ path: "b.env", variables: { A: "op://v/none/x" } }, "there is no secret op://v/none/x"],
    [{ path: "b.env", variables: { A: "a\0b" } }, "zero byte"],
    [{ path: "b.env\n*", variables: {} }, "control characters"],
    [{ path: `${"b".repeat(300)}.env`, variables: {} }, "too long for the name of a file"],
  ] as const) {
    const good = { path: "good.env", variables: { A: "op://v/db/url" } }
    const refused = await envFiles.apply([good, bad]).catch((error: Error) => error.message)
    expect(refused).toContain(reason)
    expect(await Bun.file(path("good.env")).exists()).toBe(false)
  }
  expect(await readFile(path("kept.env"), "utf8")).toBe("A=1\n")
})

test("files that are hidden for a snapshot come back, and scrubbed ones do not", async () => {
  const { envFiles, path } = create()
  await envFiles.apply([{ path: ".env", variables: { A: "op://v/db/url" } }])
  expect(await envFiles.hide()).toEqual([".env"])
  expect(await Bun.file(path(".env")).exists()).toBe(false)
  await envFiles.applyAgain()
  expect(await readFile(path(".env"), "utf8")).toContain("postgres://")
  expect(await envFiles.scrub()).toEqual([".env"])
  await envFiles.applyAgain()
  expect(await Bun.file(path(".env")).exists()).toBe(false)
})

test("a secret that was written before a later file could not be is removed before a snapshot", async () => {
  const { envFiles, path } = create()
  await envFiles.apply([{ path: "earlier.env", variables: { A: "1" } }])
  await mkdir(path("folder"))
  const refused = await envFiles
    .apply([
      { path: ".env", variables: { A: "op://v/db/url" } },
      { path: "folder", variables: { B: "2" } },
    ])
    .catch((error: Error) => error.message)
  expect(refused).toBe("outputPath: folder cannot be written")
  expect(await readFile(path(".env"), "utf8")).toContain("postgres://")
  expect((await envFiles.hide()).toSorted()).toEqual([".env", "earlier.env"])
  expect(await Bun.file(path(".env")).exists()).toBe(false)
  expect(await Bun.file(path("earlier.env")).exists()).toBe(false)
})

test("a second list of files removes those that are no longer named", async () => {
  const { envFiles, path } = create()
  await envFiles.apply([
    { path: "a.env", variables: { A: "1" } },
    { path: "b.env", variables: { B: "2" } },
  ])
  await envFiles.apply([{ path: "b.env", variables: { B: "3" } }])
  expect(await Bun.file(path("a.env")).exists()).toBe(false)
  expect(await readFile(path("b.env"), "utf8")).toBe("B=3\n")
})
