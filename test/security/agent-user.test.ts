/** The agent is never root by default, and programs that read a stranger's files are not root either. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { examine } from "../../src/cli/doctor.ts"
import { chooseAgentUser } from "../../src/runner/host/users.ts"
import { createTranscribe } from "../../src/runner/prompt/audio.ts"
import { readInvocation } from "../../src/settings/settings.ts"
import { repositoryRoot } from "../kit/runner.ts"

const isRoot = process.getuid?.() === 0
let root: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "agent-user-"))
  await chmod(root, 0o755)
  await mkdir(join(root, "bin"))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const program = (name: string, text: string) =>
  writeFile(join(root, "bin", name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })

const bootWith = async (env: Record<string, string>): Promise<string> => {
  await program("sandpiper", 'echo "user:$AGENT_USER"')
  const child = Bun.spawn(["/bin/bash", join(repositoryRoot, "start.sh")], {
    env: {
      PATH: `${root}/bin:/usr/bin:/bin`,
      HOME: root,
      WORK_DIR: join(root, "work"),
      ...env,
    },
    stdout: "pipe",
    stderr: "ignore",
  })
  return (await new Response(child.stdout).text()).trim()
}

test("start.sh starts the runner with the agent's user `agent` unless another is set", async () => {
  expect(await bootWith({})).toBe("user:agent")
  expect(await bootWith({ AGENT_USER: "" })).toBe("user:agent")
  expect(await bootWith({ AGENT_USER: "root" })).toBe("user:root")
})

test("the image is built with the user `agent`", async () => {
  const dockerfile = await readFile(join(repositoryRoot, "Dockerfile"), "utf8")
  expect(dockerfile).toContain("\nARG AGENT_USER=agent\n")
  expect(dockerfile.match(/^RUN .*useradd .*$/gm)).toEqual([
    'RUN test "$AGENT_USER" = root || useradd --create-home --shell /bin/bash "$AGENT_USER"',
    'RUN test "$AGENT_USER" = root || useradd --create-home --shell /bin/bash "$AGENT_USER"',
  ])
})

test("a root runner whose agent's user does not exist does not start, and the error says what to do", () => {
  expect(() => chooseAgentUser("no-such-user", true)).toThrow("set AGENT_USER=root")
  expect(chooseAgentUser("root", true)).toBeUndefined()
  expect(chooseAgentUser("nobody", true)?.name).toBe("nobody")
})

const findingFor = async (user: string): Promise<string> => {
  const env = {
    PATH: "/usr/bin:/bin",
    WORK_DIR: root,
    SANDPIPER_STATE_DIR: join(root, "state"),
    AGENT_USER: user,
  }
  const invocation = readInvocation(["doctor"], env, root)
  if (invocation.want !== "command") throw new Error("unreachable")
  const { lines } = await examine(invocation.settings)
  return lines.find((line) => line.includes("agent's user")) ?? ""
}

test("doctor warns of an agent that is root", async () => {
  expect(await findingFor("root")).toMatch(/^warn .*can read the runner's secrets/)
  if (!isRoot) return
  expect(await findingFor("nobody")).toMatch(/^ok .*nobody/)
  expect(await findingFor("no-such-user")).toMatch(/^bad .*there is no user/)
})

test("ffmpeg and whisper run as the agent's user", async () => {
  if (!isRoot) return
  // Stand-ins that record their user and write what the real programs write to their last argument.
  const log = join(root, "users")
  await writeFile(log, "")
  await chmod(log, 0o666)
  await program(
    "ffmpeg",
    `echo "ffmpeg $(id -un)" >> ${log}; for last; do :; done; head -c 9000 /dev/zero > "$last"`,
  )
  const output = 'while [ "$1" != --output-file ]; do shift; done; echo hello > "$2.txt"'
  await program("whisper-cli", `echo "whisper $(id -un)" >> ${log}; ${output}`)
  await writeFile(join(root, "ggml-test.bin"), "")
  const transcribe = createTranscribe({
    path: [join(root, "bin"), process.env["PATH"]].join(delimiter),
    modelsDir: root,
    user: { uid: 65_534, gid: 65_534 },
  })
  const text = await transcribe(new Uint8Array([1]), new AbortController().signal)
  expect(text).toBe("hello")
  expect(await readFile(log, "utf8")).toBe("ffmpeg nobody\nwhisper nobody\n")
})
