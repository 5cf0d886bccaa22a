/** Cloning from a real git host over HTTP: private, several, existing and unreachable repositories. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type GitServer, startGitServer } from "../../kit/git-server.ts"
import { startHost, type TestHost } from "../../kit/host.ts"
import { createSandbox, type Sandbox } from "../../kit/runner.ts"
import { untilTrue } from "../../kit/until-true.ts"

const TOKEN = "ghp_the-token-of-the-git-tests"

let server: GitServer
let sandbox: Sandbox
let host: TestHost | undefined
const hosts: TestHost[] = []

beforeEach(async () => {
  server = await startGitServer(TOKEN)
  await server.commit("project", "README.md", "first\n")
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
})
afterEach(async () => {
  for (const one of hosts.splice(0)) await one.stop()
  await server.stop()
  await sandbox.remove()
})

const start = async (env: Record<string, string>, memory?: Map<string, string>) => {
  await host?.stop()
  host = await startHost(sandbox, env, memory)
  hosts.push(host)
  await host.prepared()
  return { host, place: host }
}

const project = () => ({ REPO_URL: server.url("project"), GITHUB_TOKEN: TOKEN })
const clone = () => join(sandbox.workDir, "project")
const readClone = (file: string) => readFile(join(clone(), file), "utf8")

describe("private repositories", () => {
  test("a private repository is cloned below the workspace and becomes the working directory", async () => {
    const { host: running, place } = await start(project())
    expect(place.directory).toBe(clone())
    expect(await readClone("README.md")).toBe("first\n")
    expect(running.parts.get("workspace")?.state).toBe("ready")
    expect(running.progress.join("\n")).toMatch(/Receiving objects: +\d+%/)
  })

  test("git fetch and push work in the clone of a private repository", async () => {
    const { host: running } = await start({
      ...project(),
      GIT_USER_NAME: 'A "quoted" Person',
      GIT_USER_EMAIL: "a@b.example",
    })
    await writeFile(join(clone(), "new.txt"), "new\n")
    await mkdir(join(clone(), ".opencode"))
    await writeFile(join(clone(), ".opencode/x"), "")
    await running.git(clone(), "add", "--all")
    expect((await running.git(clone(), "commit", "-m", "more")).code).toBe(0)
    expect((await running.git(clone(), "log", "-1", "--format=%an <%ae>")).out).toBe(
      'A "quoted" Person <a@b.example>\n',
    )
    expect((await running.git(clone(), "show", "--stat", "--format=")).out).not.toContain(
      ".opencode",
    )
    expect(await running.git(clone(), "push", "--quiet")).toEqual({ code: 0, out: "" })
  })

  test("the token is in no file of the clone, of git's configuration or of the state directory", async () => {
    await start(project())
    const found = Bun.spawnSync(["grep", "-rlF", TOKEN, sandbox.root]).stdout.toString()
    expect(found).toBe("")
    expect(await readClone(".git/config")).toContain(`url = ${server.url("project")}`)
  })

  test("the token is sent to the repository's host only", async () => {
    const other = await startGitServer("another token altogether")
    await other.commit("theirs", "a", "a")
    const { host: running } = await start(project())
    const { code } = await running.git(sandbox.workDir, "clone", other.url("theirs"))
    expect(code).not.toBe(0)
    expect(other.passwords).toEqual([])
    // Another name of the same machine counts as another host.
    const aliased = server.url("project").replace("127.0.0.1", "localhost")
    const before = server.passwords.length
    await running.git(sandbox.workDir, "clone", aliased, "again")
    expect(server.passwords.length).toBe(before)
    await other.stop()
  })

  test("the remote of a clone does not contain the password of its address", async () => {
    const url = server.url("project").replace("http://", `http://someone:${TOKEN}@`)
    const { place } = await start({ REPO_URL: url })
    expect(place.directory).toBe(clone())
    expect(await readClone(".git/config")).not.toContain(TOKEN)
    const context = join(sandbox.stateDir, "session/persona/00-repo-context.md")
    expect(await readFile(context, "utf8")).not.toContain(TOKEN)
  })

  test("a wrong token causes a warning and leaves no files", async () => {
    const { host: running } = await start({
      ...project(),
      GITHUB_TOKEN: "ghp_wrong-one-altogether",
    })
    expect(running.parts.get("workspace")).toMatchObject({ state: "degraded" })
    expect(running.parts.get("workspace")?.why).toContain("Authentication failed")
    expect(await readdir(sandbox.workDir)).toEqual([])
    expect(running.log.join("\n")).not.toContain("ghp_wrong")
  })

  test("an unreachable repository causes a warning and is cloned at the next start", async () => {
    const { host: running } = await start({
      ...project(),
      REPO_URL: "http://127.0.0.1:1/project.git",
    })
    expect(running.parts.get("workspace")?.why).toContain("Failed to connect")
    const { place } = await start(project())
    expect(place.directory).toBe(clone())
  })
})

describe("branch, ref and depth", () => {
  test("the requested branch is checked out", async () => {
    await server.commit("project", "b.txt", "of the branch\n", "feature")
    await start({ ...project(), REPO_BRANCH: "feature" })
    expect(await readClone("b.txt")).toBe("of the branch\n")
  })

  test("a commit is checked out even if the shallow clone does not contain it", async () => {
    const wanted = await server.commit("project", "b.txt", "wanted\n")
    await server.commit("project", "b.txt", "later\n")
    await start({ ...project(), REPO_REF: wanted, REPO_DEPTH: "1" })
    expect(await readClone("b.txt")).toBe("wanted\n")
  })

  test("the requested tag is checked out", async () => {
    await server.tag("project", "v1")
    await server.commit("project", "README.md", "second\n")
    await start({ ...project(), REPO_REF: "v1" })
    expect(await readClone("README.md")).toBe("first\n")
  })

  test("a branch that does not exist is created in the clone if that is wanted", async () => {
    const wish = { REPO_BRANCH: "agents/new-nest", REPO_BRANCH_CREATE: "1" }
    await start({ ...project(), ...wish })
    expect(await readClone(".git/HEAD")).toBe("ref: refs/heads/agents/new-nest\n")
    expect(await readClone("README.md")).toBe("first\n")
  })

  test("a branch that exists is checked out also if a missing one would be created", async () => {
    await server.commit("project", "b.txt", "of the branch\n", "feature")
    await start({ ...project(), REPO_BRANCH: "feature", REPO_BRANCH_CREATE: "1" })
    expect(await readClone("b.txt")).toBe("of the branch\n")
  })

  test("a ref that does not exist causes a warning and leaves no partial clone", async () => {
    const { host: running } = await start({ ...project(), REPO_BRANCH: "no-such-branch" })
    expect(running.parts.get("workspace")?.why).toContain("no-such-branch")
    expect(await readdir(sandbox.workDir)).toEqual([])
  })
})

describe("an existing clone", () => {
  const memory = () => new Map<string, string>()

  test("an existing clone keeps its uncommitted work after a reboot of the sandbox", async () => {
    const known = memory()
    await start(project(), known)
    await writeFile(join(clone(), "README.md"), "half a thought")
    await writeFile(join(clone(), "untracked"), "another")
    await server.commit("project", "README.md", "second\n")
    known.set("host.life", "an earlier boot")
    known.delete("host.pulled-at")
    const { host: running, place } = await start(project(), known)
    expect(place.directory).toBe(clone())
    expect(await readClone("README.md")).toBe("half a thought")
    expect(await readClone("untracked")).toBe("another")
    expect(running.log.join("\n")).toContain("uncommitted work")
  })

  test("a clean clone is fast-forwarded after a reboot but not after a restart of the runner", async () => {
    const known = memory()
    await start(project(), known)
    await server.commit("project", "README.md", "second\n")
    await start(project(), known)
    expect(await readClone("README.md")).toBe("first\n")
    known.set("host.life", "an earlier boot")
    await start(project(), known)
    expect(await readClone("README.md")).toBe("second\n")
  })

  test("a failed pull does not use up the interval: the next boot pulls", async () => {
    const known = memory()
    await start(project(), known)
    await server.commit("project", "README.md", "second\n")
    const origin = (await Bun.$`git -C ${clone()} remote get-url origin`.text()).trim()
    await Bun.$`git -C ${clone()} remote set-url origin http://127.0.0.1:1/nothing.git`
    known.set("host.life", "an earlier boot")
    const { host: failed } = await start(project(), known)
    expect(failed.parts.get("workspace")?.state).toBe("degraded")
    expect(known.has("host.pulled-at")).toBe(false)
    await Bun.$`git -C ${clone()} remote set-url origin ${origin}`
    known.set("host.life", "another boot")
    await start(project(), known)
    expect(await readClone("README.md")).toBe("second\n")
    expect(known.has("host.pulled-at")).toBe(true)
  })

  test("a clone is not pulled before the interval has passed, nor if pulls are switched off", async () => {
    const known = memory()
    known.set("host.life", "an earlier boot")
    await start(project(), known)
    await server.commit("project", "README.md", "second\n")
    known.set("host.life", "another boot")
    await start(project(), known)
    expect(await readClone("README.md")).toBe("first\n")
    known.set("host.life", "a third")
    await start({ ...project(), GIT_PULL_EVERY_SECONDS: "0", GIT_PULL_ON_RESTORE: "never" }, known)
    expect(await readClone("README.md")).toBe("first\n")
    await start({ ...project(), GIT_PULL_EVERY_SECONDS: "0", GIT_PULL_ON_RESTORE: "always" }, known)
    expect(await readClone("README.md")).toBe("second\n")
  })

  test("a clone with local commits is unchanged if the remote has diverged", async () => {
    const known = memory()
    const { host: running } = await start(
      { ...project(), GIT_USER_NAME: "x", GIT_USER_EMAIL: "x@y.example" },
      known,
    )
    await writeFile(join(clone(), "mine"), "mine")
    await running.git(clone(), "add", "mine")
    await running.git(clone(), "commit", "-m", "mine")
    await server.commit("project", "README.md", "second\n")
    known.set("host.life", "an earlier boot")
    const again = await start({ ...project(), GIT_PULL_EVERY_SECONDS: "0" }, known)
    expect(again.place.directory).toBe(clone())
    expect(await readClone("README.md")).toBe("first\n")
    expect(again.host.parts.get("workspace")?.state).toBe("degraded")
  })

  test("a missing ref is fetched without moving the working tree", async () => {
    await start(project())
    const wanted = await server.commit("project", "README.md", "second\n")
    const { host: running } = await start({ ...project(), REPO_REF: wanted })
    expect(await readClone("README.md")).toBe("first\n")
    expect((await running.git(clone(), "cat-file", "-t", wanted)).out).toBe("commit\n")
  })

  test("an existing clone with an unreachable host stays the working directory", async () => {
    await start(project())
    const { place } = await start({ ...project(), REPO_REF: "f".repeat(40) })
    expect(place.directory).toBe(clone())
  })
})

test("an existing directory that is not a clone is left unchanged", async () => {
  await mkdir(clone())
  await writeFile(join(clone(), "precious"), "mine")
  const { host: running } = await start(project())
  expect(await readClone("precious")).toBe("mine")
  expect(running.parts.get("workspace")?.why).toContain("is not a git clone")
})

test("a partial clone from a crash is deleted and cloned again", async () => {
  await mkdir(join(sandbox.workDir, "project.cloning"))
  await writeFile(join(sandbox.workDir, "project.cloning/rest"), "")
  await start(project())
  expect(await readdir(sandbox.workDir)).toEqual(["project"])
})

test("a clone that comes with a later token fills the directory in which programs run already", async () => {
  const { host: running } = await start({ REPO_URL: server.url("project") })
  expect(running.parts.get("workspace")?.state).toBe("degraded")
  await mkdir(clone())
  const { ino } = await stat(clone())
  running.setGitCredentials({ token: TOKEN })
  await untilTrue(() => running.parts.get("workspace")?.state === "ready", "clone")
  expect(await readClone("README.md")).toBe("first\n")
  expect((await stat(clone())).ino).toBe(ino)
  expect((await running.git(clone(), "status", "--porcelain")).out).toBe("")
  expect(await readdir(sandbox.workDir)).toEqual(["project"])
})

test("several repositories are cloned with their own tokens, and a failure does not stop the others", async () => {
  const other = await startGitServer("token-of-the-other")
  await other.commit("lib", "a", "of the other\n")
  const { host: running, place } = await start({
    ...project(),
    REPOS_JSON: JSON.stringify([
      { url: "http://127.0.0.1:1/nowhere.git" },
      { url: other.url("lib"), name: "library", token: "token-of-the-other" },
    ]),
  })
  expect(place.directory).toBe(clone())
  expect((await readdir(sandbox.workDir)).toSorted()).toEqual(["library", "project"])
  expect(running.parts.get("workspace")?.why).toContain("nowhere")
  expect(new Set(other.passwords)).toEqual(new Set(["token-of-the-other"]))
  await other.stop()
})

test("the user's own git settings stay, and repeated starts add nothing to them", async () => {
  const home = sandbox.environment["HOME"] ?? ""
  await writeFile(join(home, ".gitconfig"), "[alias]\n\tst = status\n")
  await start(project())
  const once = await readFile(join(home, ".gitconfig"), "utf8")
  await start(project())
  expect(await readFile(join(home, ".gitconfig"), "utf8")).toBe(once)
  expect(once).toContain("st = status")
})

test("a full disk causes a warning and leaves no partial clone", async () => {
  if (process.getuid?.() !== 0)
    throw new Error("this test mounts a small disk and must run as root")
  const disk = join(sandbox.root, "disk")
  await mkdir(disk)
  Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk])
  try {
    await server.commit("project", "big", "x".repeat(3_000_000))
    const { host: running } = await start({ ...project(), WORK_DIR: disk })
    expect(running.parts.get("workspace")?.state).toBe("degraded")
    expect(running.parts.get("workspace")?.why).toMatch(/No space left|write error|index-pack/)
    expect(existsSync(join(disk, "project"))).toBeFalse()
  } finally {
    Bun.spawnSync(["umount", disk])
  }
})
