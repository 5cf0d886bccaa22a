/** The files that OpenCode gets: from a folder, for whom, and what tells one set from another. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  type LaunchPlanOptions,
  createLaunchPlans,
} from "../../../../src/runner/opencode/config/launch-plan.ts"
import {
  filesFor,
  isCarried,
  readConfigFiles,
} from "../../../../src/runner/opencode/config/config-files.ts"
import { embedConfigFiles } from "../../../../src/runner/opencode/config/embed.ts"
import {
  type AgentDirectories,
  agentDirectories,
  writeRooms,
  writeSettings,
  writeWorkspace,
} from "../../../../src/runner/opencode/config/config-directories.ts"

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "config-"))
  const files = {
    "opencode.json": "{}",
    "tools/complete_session.js": "export default 1",
    "tools/notify_parent.ts": "export default 2",
    "tools/send_image.js": "export default 3",
    "lib/tools.js": "export const x = 1",
    "skills/browser/SKILL.md": "---",
    "secrets/never.txt": "not taken",
  }
  for (const [path, text] of Object.entries(files)) await Bun.write(join(folder, path), text)
})
afterAll(() => rm(folder, { recursive: true }))

test("a folder is read with its sub-folders, and only what OpenCode knows", () => {
  expect(Object.keys(readConfigFiles(folder)).toSorted()).toEqual([
    "lib/tools.js",
    "opencode.json",
    "skills/browser/SKILL.md",
    "tools/complete_session.js",
    "tools/notify_parent.ts",
    "tools/send_image.js",
  ])
})

test("orchestrators get neither complete_session nor notify_parent", () => {
  const tools = Object.keys(filesFor(readConfigFiles(folder), true)).filter((path) =>
    path.startsWith("tools/"),
  )
  expect(tools).toEqual(["tools/send_image.js"])
})

test("the program carries its own settings and the plugin that hides the password", () => {
  expect(embedConfigFiles()["opencode.json"]).toContain('"share": "disabled"')
  expect(Object.keys(embedConfigFiles())).toContain("plugins/hide-password.js")
})

test("code is carried by the program when every file of it is, those that tools import too", () => {
  const own = embedConfigFiles()
  expect(isCarried(own, own)).toBe(true)
  expect(isCarried(filesFor(own, true), own)).toBe(true)
  expect(isCarried({ ...own, "instructions/more.md": "words" }, own)).toBe(true)
  expect(isCarried({ ...own, "lib/tools.js": "other" }, own)).toBe(false)
  expect(isCarried({ ...own, "plugins/more.js": "other" }, own)).toBe(false)
})

describe("a blueprint", () => {
  const options = (): LaunchPlanOptions => ({
    directories: agentDirectories("/state"),
    files: readConfigFiles(folder),
    ownFiles: {},
    catalogue: { suffices: () => true, text: "{}" },
    environment: { PATH: "/bin" },
    environmentAllow: [],
    ownVariables: new Set(),
    extraEnvironment: {},
    permissions: "allow",
    allowedModels: undefined,
    bashTimeoutMs: 1000,
    user: undefined,
    opencodeVersion: "1",
    workDir: "/w",
  })
  const of = createLaunchPlans

  test("is equal for an equal configuration", () => {
    const runtime = { instructions: ["x"] }
    expect(of(options())(runtime).hash).toBe(of(options())({ ...runtime }).hash)
  })

  test("of other settings differs, but not in what needs a new process", () => {
    const [one, other] = [of(options())({}), of(options())({ providerKeys: { openai: "k" } })]
    expect(one.hash).not.toBe(other.hash)
    expect(one.processHash).toBe(other.processHash)
  })

  test.each<[string, Partial<LaunchPlanOptions>]>([
    ["version", { opencodeVersion: "2" }],
    ["environment", { environment: { PATH: "/other" } }],
    ["user", { user: { name: "agent", uid: 7, gid: 7, home: "/" } }],
    ["tool code", { files: { "tools/send_image.js": "export default 4" } }],
  ])("of another %s needs a new process", (_name, change) => {
    const [one, other] = [of(options())({}), of({ ...options(), ...change })({})]
    expect(one.processHash).not.toBe(other.processHash)
  })

  test("of other models needs a new process, but not one that is started with something else", () => {
    const [one, other] = [
      of(options())({}),
      of({ ...options(), catalogue: { suffices: () => false, text: "{}" } })({}),
    ]
    expect(one.processHash).not.toBe(other.processHash)
    expect(one.startHash).toBe(other.startHash)
    expect([one.catalogue, other.catalogue]).toEqual(["{}", undefined])
  })

  test("of an orchestrator needs a new process: it has other tools", () => {
    const [one, other] = [of(options())({}), of(options())({ isOrchestrator: true })]
    expect(one.processHash).not.toBe(other.processHash)
    expect(Object.keys(other.files)).not.toContain("tools/complete_session.js")
  })
})

describe("a link that the agent laid in its directories", () => {
  const settings = { config: { share: "disabled" }, auth: {}, instructions: "hello\n" }
  const install = (directories: AgentDirectories) =>
    writeWorkspace({
      directories,
      settings,
      files: readConfigFiles(folder),
      catalogue: "{}",
      opencodeVersion: "1",
      checkCode: async () => new Map(),
    })

  test("is not followed by anything that is written there", async () => {
    const state = await mkdtemp(join(tmpdir(), "state-"))
    const elsewhere = await mkdtemp(join(tmpdir(), "elsewhere-"))
    const victim = join(elsewhere, "victim")
    await Bun.write(victim, "untouched")
    await Bun.write(join(elsewhere, "opencode/kept"), "untouched")
    const directories = agentDirectories(state)
    await writeRooms(directories, "1")
    await install(directories)

    const lay = async (path: string, target: string) => {
      await rm(path, { recursive: true, force: true })
      await symlink(target, path)
    }
    await lay(join(directories.root, "xdg/data"), elsewhere)
    await lay(join(directories.root, "xdg/config"), elsewhere)
    await lay(join(directories.config, "instructions"), elsewhere)
    await lay(`${directories.configFile}.new`, victim)
    await lay(`${directories.catalogueFile}.new`, victim)

    await writeSettings(directories, { ...settings, instructions: "again\n" })
    expect(await Bun.file(directories.sentencesFile).text()).toBe("again\n")
    await writeRooms(directories, "1")
    await lay(`${directories.authFile}.new`, victim)
    await install(directories)

    expect(await Bun.file(victim).text()).toBe("untouched")
    expect((await readdir(elsewhere)).toSorted()).toEqual(["opencode", "victim"])
    expect(await readdir(join(elsewhere, "opencode"))).toEqual(["kept"])
    expect(await Bun.file(directories.authFile).text()).toBe("{}\n")
    for (const path of [state, elsewhere]) await rm(path, { recursive: true })
  })
})

describe("the configuration directory", () => {
  test("is written anew: what was left over is gone, what does not load is left out, sessions stay", async () => {
    const state = await mkdtemp(join(tmpdir(), "state-"))
    const directories = agentDirectories(state)
    await Bun.write(join(directories.config, "tools/stale.js"), "old")
    await Bun.write(join(directories.data, "opencode.db"), "sessions")
    await Bun.write(directories.catalogueFile, "models of another configuration")
    const broken = join(`${directories.config}.new`, "tools/send_image.js")
    const leftOut = await writeWorkspace({
      directories,
      settings: { config: { share: "disabled" }, auth: {}, instructions: "hello\n" },
      files: readConfigFiles(folder),
      catalogue: undefined,
      opencodeVersion: "9.9.9",
      checkCode: async () => new Map([[broken, "it does not load"]]),
    })
    expect(leftOut).toEqual([{ path: "tools/send_image.js", problem: "it does not load" }])
    const files = await Array.fromAsync(new Bun.Glob("**/*").scan({ cwd: directories.config }))
    expect(files.toSorted()).toEqual([
      "instructions/session.md",
      "lib/tools.js",
      "opencode.json",
      "package-lock.json",
      "package.json",
      "skills/browser/SKILL.md",
      "tools/complete_session.js",
      "tools/notify_parent.ts",
    ])
    expect(await Bun.file(join(directories.data, "opencode.db")).text()).toBe("sessions")
    expect(await Bun.file(join(directories.config, "package-lock.json")).text()).toContain("9.9.9")
    expect(await Bun.file(directories.catalogueFile).exists()).toBe(false)
    await rm(state, { recursive: true })
  })
})
