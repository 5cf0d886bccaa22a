/** OpenCode's config files: reading them, launch plans and their hashes, and the config directory on disk. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  type LaunchPlanOptions,
  launchPlanFor,
} from "../../../../src/runner/opencode/config/launch-plan.ts"
import {
  filesFor,
  isBundled,
  readConfigFiles,
} from "../../../../src/runner/opencode/config/config-files.ts"
import { embedConfigFiles } from "../../../../src/runner/opencode/config/embed.ts"
import {
  type AgentDirectories,
  agentDirectories,
  prepareWritableDirs,
  writeConfig,
  writeConfigDirectory,
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

test("a config folder is read with its sub-folders, and unknown folders are ignored", () => {
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

test("the program bundles opencode.json and the plugin that hides the password", () => {
  expect(embedConfigFiles()["opencode.json"]).toContain('"share": "disabled"')
  expect(Object.keys(embedConfigFiles())).toContain("plugins/hide-password.js")
})

test("code counts as bundled when every tool, plugin and library file equals the bundled one", () => {
  const own = embedConfigFiles()
  expect(isBundled(own, own)).toBe(true)
  expect(isBundled(filesFor(own, true), own)).toBe(true)
  expect(isBundled({ ...own, "instructions/more.md": "text" }, own)).toBe(true)
  expect(isBundled({ ...own, "lib/tools.js": "other" }, own)).toBe(false)
  expect(isBundled({ ...own, "plugins/more.js": "other" }, own)).toBe(false)
})

describe("a launch plan", () => {
  const options = (): LaunchPlanOptions => ({
    directories: agentDirectories("/state"),
    files: readConfigFiles(folder),
    ownFiles: {},
    catalogue: { covers: () => true, addresses: {}, text: "{}" },
    environment: { PATH: "/bin" },
    broker: { origin: "http://127.0.0.1:7", token: "t" },
    environmentAllow: [],
    extraEnvironment: {},
    permissions: "allow",
    isOrchestrator: false,
    allowedModels: undefined,
    bashTimeoutMs: 1000,
    user: undefined,
    opencodeVersion: "1",
    workDir: "/w",
  })
  const planFor = launchPlanFor

  test("equal configurations have the same hash", () => {
    const runtime = { instructions: ["x"] }
    expect(planFor(options())(runtime).hash).toBe(planFor(options())({ ...runtime }).hash)
  })

  test("another provider key changes the hash but not the process hash", () => {
    const [one, other] = [
      planFor(options())({}),
      planFor(options())({ providerKeys: { openai: "k" } }),
    ]
    expect(one.hash).not.toBe(other.hash)
    expect(one.processHash).toBe(other.processHash)
  })

  test.each<[string, Partial<LaunchPlanOptions>]>([
    ["version", { opencodeVersion: "2" }],
    ["environment", { environment: { PATH: "/other" } }],
    ["user", { user: { name: "agent", uid: 7, gid: 7, home: "/" } }],
    ["tool code", { files: { "tools/send_image.js": "export default 4" } }],
  ])("another %s changes the process hash", (_name, change) => {
    const [one, other] = [planFor(options())({}), planFor({ ...options(), ...change })({})]
    expect(one.processHash).not.toBe(other.processHash)
  })

  test("another model catalogue changes the process hash but not the start hash", () => {
    const [one, other] = [
      planFor(options())({}),
      planFor({ ...options(), catalogue: { covers: () => false, addresses: {}, text: "{}" } })({}),
    ]
    expect(one.processHash).not.toBe(other.processHash)
    expect(one.startHash).toBe(other.startHash)
    expect([one.catalogue, other.catalogue]).toEqual(["{}", undefined])
  })

  test("an orchestrator has other tools and so another process hash", () => {
    const [one, other] = [planFor(options())({}), planFor(options())({ isOrchestrator: true })]
    expect(one.processHash).not.toBe(other.processHash)
    expect(Object.keys(other.files)).not.toContain("tools/complete_session.js")
  })

  test("the setting IS_ORCHESTRATOR counts unless the config of the session agent says otherwise", () => {
    const plan = planFor({ ...options(), isOrchestrator: true })
    expect(plan({}).processHash).toBe(planFor(options())({ isOrchestrator: true }).processHash)
    expect(plan({ isOrchestrator: false }).processHash).toBe(planFor(options())({}).processHash)
  })
})

describe("symbolic links of the agent", () => {
  const config = {
    opencodeJson: { share: "disabled" },
    auth: {},
    upstreams: {},
    services: {},
    instructions: "hello\n",
  }
  const install = (directories: AgentDirectories) =>
    writeConfigDirectory({
      directories,
      config,
      files: readConfigFiles(folder),
      catalogue: "{}",
      opencodeVersion: "1",
      checkCode: async () => new Map(),
    })

  test("writing the config follows no symbolic link that the agent created", async () => {
    const state = await mkdtemp(join(tmpdir(), "state-"))
    const elsewhere = await mkdtemp(join(tmpdir(), "elsewhere-"))
    const victim = join(elsewhere, "victim")
    await Bun.write(victim, "untouched")
    await Bun.write(join(elsewhere, "opencode/kept"), "untouched")
    const directories = agentDirectories(state)
    await prepareWritableDirs(directories, "1")
    await install(directories)

    const replaceByLink = async (path: string, target: string) => {
      await rm(path, { recursive: true, force: true })
      await symlink(target, path)
    }
    await replaceByLink(join(directories.root, "xdg/data"), elsewhere)
    await replaceByLink(join(directories.root, "xdg/config"), elsewhere)
    await replaceByLink(join(directories.config, "instructions"), elsewhere)
    await replaceByLink(`${directories.configFile}.new`, victim)
    await replaceByLink(`${directories.catalogueFile}.new`, victim)

    await writeConfig(directories, { ...config, instructions: "again\n" })
    expect(await Bun.file(directories.instructionsFile).text()).toBe("again\n")
    await prepareWritableDirs(directories, "1")
    await replaceByLink(`${directories.authFile}.new`, victim)
    await install(directories)

    expect(await Bun.file(victim).text()).toBe("untouched")
    expect((await readdir(elsewhere)).toSorted()).toEqual(["opencode", "victim"])
    expect(await readdir(join(elsewhere, "opencode"))).toEqual(["kept"])
    expect(await Bun.file(directories.authFile).text()).toBe("{}\n")
    for (const path of [state, elsewhere]) await rm(path, { recursive: true })
  })
})

describe("the config directory", () => {
  test("the config directory is replaced without stale and broken files, and sessions stay", async () => {
    const state = await mkdtemp(join(tmpdir(), "state-"))
    const directories = agentDirectories(state)
    await Bun.write(join(directories.config, "tools/stale.js"), "old")
    await Bun.write(join(directories.data, "opencode.db"), "sessions")
    await Bun.write(directories.catalogueFile, "models of another configuration")
    const broken = join(`${directories.config}.new`, "tools/send_image.js")
    const rejected = await writeConfigDirectory({
      directories,
      config: {
        opencodeJson: { share: "disabled" },
        auth: {},
        upstreams: {},
        services: {},
        instructions: "hello\n",
      },
      files: readConfigFiles(folder),
      catalogue: undefined,
      opencodeVersion: "9.9.9",
      checkCode: async () => new Map([[broken, "it does not load"]]),
    })
    expect(rejected).toEqual([{ path: "tools/send_image.js", problem: "it does not load" }])
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
