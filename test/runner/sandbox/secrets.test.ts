/** Secrets in files, commands and forms: used without showing their values. Each test has a workspace of its own. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { systemClock } from "../../../src/lib/clock.ts"
import { openSecrets } from "../../../src/runner/sandbox/open-secrets.ts"
import { createRunCommand } from "../../../src/runner/sandbox/run-command.ts"
import { createSecretsFile } from "../../../src/runner/sandbox/secrets-file.ts"
import { createSecrets, type Secrets } from "../../../src/runner/sandbox/secrets.ts"
import { untilTrue } from "../../kit/until-true.ts"

const TOKEN = "tok_8f3a51d97c20b64e"
const PASSWORD = "correct horse & battery=staple"

let root: string
let work: string
let file: string
let secrets: Secrets

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "secrets-test-"))
  work = join(root, "workspace")
  file = join(root, "secrets.json")
  const bin = join(root, "bin")
  await Promise.all([mkdir(work), mkdir(bin)])
  const contents = { "api/token": TOKEN, password: PASSWORD, pin: "123", empty: "" }
  await writeFile(file, JSON.stringify(contents), { mode: 0o600 })
  // A fake browser program that prints its arguments and stores its input.
  const browser = `#!/bin/sh\necho "args: $*" > ${root}/browser-args\ncat > ${root}/browser-stdin\n`
  await writeFile(join(bin, "agent-browser"), browser, { mode: 0o755 })
  const path = [bin, process.env["PATH"]].join(delimiter)
  secrets = createSecrets({
    provider: createSecretsFile(file),
    workDir: work,
    owner: undefined,
    runCommand: createRunCommand({
      workDir: work,
      environment: { PATH: path, HOME: root },
      owner: undefined,
      clock: systemClock,
    }),
  })
})

afterEach(() => rm(root, { recursive: true, force: true }))

const env = { TOKEN: "secret://api/token", PASSWORD: "secret://password" }
const template = "A=secret://api/token\nB='secret://password'\nC=secret://api/token\n"
const writeTemplate = () => writeFile(join(work, "env.tpl"), template)
const run = (command: string, timeoutMs?: number) => secrets.run({ command, env, timeoutMs })

const refusalOf = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "it was done",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

describe("the list of secrets", () => {
  test("the list of secrets contains references and no values", async () => {
    const listed = await secrets.list(undefined)
    expect(listed.map(({ reference }) => reference)).toContain("secret://api/token")
    expect(JSON.stringify(listed)).not.toContain(TOKEN)
    expect(await secrets.list("api")).toEqual([{ reference: "secret://api/token" }])
  })
})

describe("a command with secrets", () => {
  test("a command has secrets in its environment, and its output contains none of them", async () => {
    const { exitCode, stdout, stderr } = await run(
      'test -n "$TOKEN"; echo "$TOKEN"; echo "$PASSWORD" >&2',
    )
    expect({ exitCode, stdout, stderr }).toEqual({
      exitCode: 0,
      stdout: "[secret]\n",
      stderr: "[secret]\n",
    })
  })

  test("the output of a command that prints its environment in base64 contains no value", async () => {
    const { stdout } = await run("env | base64")
    const decoded = Buffer.from(stdout.replaceAll("[secret]", ""), "base64").toString("latin1")
    for (const value of [TOKEN, PASSWORD]) {
      expect(stdout).not.toContain(Buffer.from(value).toString("base64").slice(0, 8))
      expect(decoded).not.toContain(value.slice(3, 12))
    }
    expect(stdout).toContain("[secret]")
  })

  test("the arguments of a command contain no value", async () => {
    const { stdout } = await run("cat /proc/$$/cmdline | tr '\\0' ' '")
    expect(stdout).toContain("cmdline")
    expect(stdout).not.toContain("[secret]")
  })

  test("a command has none of the runner's own variables", async () => {
    const { stdout } = await run("env")
    expect(stdout.split("\n").map((line) => line.split("=")[0])).not.toContain(
      "OP_SERVICE_ACCOUNT_TOKEN",
    )
  })

  test("a value that a command writes byte by byte is masked", async () => {
    const { stdout } = await run(
      'echo "$TOKEN" | fold -w 1 | while read -r c; do printf %s "$c"; done',
    )
    expect(stdout).toBe("[secret]")
  })

  test("a command that fails returns its exit code and output", async () => {
    expect(await run("echo no >&2; exit 7")).toEqual({ exitCode: 7, stdout: "", stderr: "no\n" })
  })

  test("a command that exceeds its timeout is ended with all its child processes", async () => {
    const words = await refusalOf(run("sleep 300 & echo $! > child; wait", 300))
    expect(words).toBe("the command took longer than 300 ms and was ended")
    const pid = (await readFile(join(work, "child"), "utf8")).trim()
    // A process does not end in the same moment in which the signal is sent.
    const isGone = async () => {
      const state = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
      return state === "" || state.includes(") Z ")
    }
    await untilTrue(isGone, "end of the process")
  })

  test("a command that leaves a daemon running returns without waiting for it", async () => {
    const { stdout } = await run("sleep 300 & echo $!")
    const daemon = Number(stdout)
    expect(stdout).toBe(`${daemon}\n`)
    // It runs when the command has returned.
    expect(process.kill(daemon, "SIGKILL")).toBe(true)
  })

  test("the output of a command is read completely, and its kept part is limited", async () => {
    const { stdout } = await run("head -c 3000000 /dev/zero | tr '\\0' x")
    expect(stdout.length).toBeLessThan(300_000)
    expect(stdout).toEndWith("[more output was left out]")
  })

  test("a command is not run if a secret is missing, too short to mask, empty, or not a reference", async () => {
    const refused = (reference: string) =>
      refusalOf(secrets.run({ command: "touch ran", env: { A: reference } }))
    expect(await refused("secret://nope")).toBe("there is no secret secret://nope")
    expect(await refused("secret://pin")).toContain("cannot be masked in the output")
    expect(await refused("secret://empty")).toBe("there is no secret secret://empty")
    expect(await refused(TOKEN)).toContain("is not a reference to a secret")
    expect(await readdir(work)).not.toContain("ran")
  })

  test("a command runs only in a folder of the workspace", async () => {
    await mkdir(join(work, "sub"), { recursive: true })
    expect((await secrets.run({ command: "pwd", env: {}, cwd: "sub" })).stdout).toEndWith("/sub\n")
    await symlink("/", join(work, "out"))
    for (const cwd of ["..", "/etc", "out"]) {
      expect(await refusalOf(secrets.run({ command: "pwd", env: {}, cwd }))).toContain("outside")
    }
  })
})

describe("a file from a template", () => {
  test("a file from a template contains the values and only its owner can read it", async () => {
    await writeTemplate()
    await writeFile(join(work, ".env"), "old", { mode: 0o644 })
    expect(await secrets.inject("env.tpl", ".env")).toEqual({ count: 2 })
    expect(await readFile(join(work, ".env"), "utf8")).toBe(
      `A=${TOKEN}\nB='${PASSWORD}'\nC=${TOKEN}\n`,
    )
    expect((await stat(join(work, ".env"))).mode & 0o777).toBe(0o600)
  })

  test("a file from a template is not written if one secret is missing", async () => {
    await writeFile(join(work, "bad.tpl"), `${template}D=secret://nope\n`)
    expect(await refusalOf(secrets.inject("bad.tpl", "new.env"))).toContain("secret://nope")
    const left = await readdir(work)
    expect(left).not.toContain("new.env")
    expect(left.filter((name) => name.startsWith(".new.env"))).toEqual([])
  })

  test("a file from a template is written only in the workspace, even through links", async () => {
    await writeTemplate()
    const outside = join(root, "outside")
    await mkdir(outside)
    await symlink(outside, join(work, "link"))
    await symlink(join(outside, "target"), join(work, "linked.env"))
    for (const path of ["../x.env", "/tmp/x.env", "link/x.env", "link/deep/x.env", "."]) {
      expect(await refusalOf(secrets.inject("env.tpl", path))).toContain("outside the workspace")
    }
    await secrets.inject("env.tpl", "linked.env")
    expect(await readdir(outside)).toEqual([])
    expect((await stat(join(work, "linked.env"))).isFile()).toBe(true)
  })

  test("a template outside the workspace is refused", async () => {
    await symlink("/etc/hostname", join(work, "host.tpl"))
    expect(await refusalOf(secrets.inject("host.tpl", "x.env"))).toContain("outside the workspace")
    expect(await refusalOf(secrets.inject("none.tpl", "x.env"))).toBe("there is no none.tpl")
  })

  test("the folder of a file from a template is created if it is missing", async () => {
    await writeTemplate()
    await secrets.inject("env.tpl", "config/deep/.env")
    expect((await stat(join(work, "config/deep/.env"))).mode & 0o777).toBe(0o600)
  })
})

describe("a field of a page", () => {
  test("a form field gets its value over stdin and not as an argument", async () => {
    await secrets.fill("#password", "secret://password")
    expect(await readFile(join(root, "browser-args"), "utf8")).toBe("args: batch --bail\n")
    expect(JSON.parse(await readFile(join(root, "browser-stdin"), "utf8"))).toEqual([
      ["fill", "#password", PASSWORD],
    ])
  })

  test("the error for a form field that was not filled does not contain the value", async () => {
    const failing = `#!/bin/sh\necho "cannot fill $(cat)" >&2\nexit 1\n`
    const path = join(root, "bin/agent-browser")
    await writeFile(path, failing, { mode: 0o755 })
    const words = await refusalOf(secrets.fill("#x", "secret://password"))
    expect(words).toContain("the browser did not fill the field")
    expect(words).not.toContain("horse")
    await rm(path)
    expect(await refusalOf(secrets.fill("#x", "secret://password"))).toContain("agent-browser")
  })
})

describe("secrets with a separate user for the agent", () => {
  // Without root, commands can only run as the current user.
  const isRoot = process.getuid?.() === 0
  const uid = isRoot ? 65_534 : (process.getuid?.() ?? 0)
  const gid = isRoot ? 65_534 : (process.getgid?.() ?? 0)

  test("commands run as the agent's user, and only that user can read the files", async () => {
    await chmod(root, 0o755)
    await chmod(work, 0o777)
    await writeTemplate()
    const owner = { name: "agent", home: work, uid, gid }
    const theirs = openSecrets({
      secretsToken: () => undefined,
      secretsFile: file,
      workDir: work,
      stateDir: root,
      environment: { PATH: process.env["PATH"] ?? "", HOME: root },
      owner,
      clock: systemClock,
    })
    const ran = await theirs?.run({ command: "id -u; id -g; echo $HOME", env: {} })
    expect(ran?.stdout).toBe(`${uid}\n${gid}\n${work}\n`)
    await theirs?.inject("env.tpl", "theirs/.env")
    const made = await stat(join(work, "theirs/.env"))
    expect([made.uid, made.gid, made.mode & 0o777]).toEqual([uid, gid, 0o600])
    expect((await stat(join(work, "theirs"))).uid).toBe(uid)
  })

  test("without a source there are no secrets", () => {
    const nowhere = { secretsToken: () => undefined, secretsFile: undefined, owner: undefined }
    const rest = { workDir: work, stateDir: root, environment: {}, clock: systemClock }
    expect(openSecrets({ ...nowhere, ...rest })).toBeUndefined()
  })
})

describe("the secrets file", () => {
  test("a secrets file that others can read or that is not an object of texts is refused", async () => {
    const path = join(root, "other.json")
    await writeFile(path, "{}")
    await chmod(path, 0o644)
    expect(await refusalOf(createSecretsFile(path).list(undefined))).toContain("chmod 600")
    await chmod(path, 0o600)
    expect(await createSecretsFile(path).list(undefined)).toEqual([])
    await writeFile(path, "[")
    expect(await refusalOf(createSecretsFile(path).list(undefined))).toContain("JSON object")
    expect(await refusalOf(createSecretsFile(join(root, "none")).list(undefined))).toContain(
      "missing",
    )
  })
})
