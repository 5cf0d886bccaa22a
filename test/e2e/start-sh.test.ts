/** start.sh with a fake runner that prints its arguments, environment and secrets. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readInvocation } from "../../src/settings/settings.ts"
import { helpPage } from "../../src/cli/help.ts"
import { withSecrets, withSecretsFile } from "../../src/settings/secret-sources.ts"
import { startRunner } from "../../src/fleet/providers/start-runner.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { repositoryRoot } from "../kit/runner.ts"

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "start-"))
  await mkdir(join(root, "bin"))
  await program(
    "sandpiper",
    `#!/bin/bash
if [ "$1" = doctor ]; then echo "the doctor was here"; exit 0; fi
echo "ARGS:$*"; echo "PID:$$"; echo "CWD:$PWD"
cat /proc/$$/environ | tr '\\0' '\\n' | sed 's/^/ENV:/'
if [ -n "$SANDPIPER_SECRETS_FD" ]; then tr '\\0' '\\n' <&"$SANDPIPER_SECRETS_FD" | sed 's/^/SECRET:/'; fi
exit 7
`,
  )
})
afterEach(() => rm(root, { recursive: true, force: true }))

const program = async (name: string, text: string) => {
  await writeFile(join(root, "bin", name), text)
  await chmod(join(root, "bin", name), 0o755)
}

const start = async (env: Record<string, string> = {}, args: readonly string[] = []) => {
  const { out, err, code, pid } = await runToEnd(
    ["/bin/bash", join(repositoryRoot, "start.sh"), ...args],
    {
      env: {
        PATH: `${root}/bin:/usr/bin:/bin`,
        HOME: root,
        WORK_DIR: join(root, "workspace"),
        ...env,
      },
    },
  )
  const tagged = (tag: string) =>
    out
      .split("\n")
      .flatMap((line) => (line.startsWith(`${tag}:`) ? [line.slice(tag.length + 1)] : []))
  return { out, err, code, pid, tagged }
}

test("start.sh replaces itself with the runner in the workspace and keeps the pid and the exit code", async () => {
  const { code, pid, tagged } = await start()
  expect(code).toBe(7)
  expect(tagged("PID")).toEqual([String(pid)])
  expect(tagged("ARGS")).toEqual(["run"])
  expect(tagged("CWD")).toEqual([join(root, "workspace")])
})

test("start.sh writes the runner's pid to the file by which the fleet finds a runner that hangs", async () => {
  const file = "/run/sandpiper-runner.pid"
  expect(startRunner.join(" ")).toContain(file)
  await program("sandpiper", `#!/bin/bash\necho "OWN:$$ FILE:$(cat ${file})"\n`)
  // In a mount namespace: the file of this machine, which other tests write too, is not touched.
  const script = 'mount -t tmpfs tmpfs /run && exec /bin/bash "$1"'
  const argv = ["unshare", "--mount", "sh", "-c", script, "sh", join(repositoryRoot, "start.sh")]
  const { out } = await runToEnd(argv, {
    env: { PATH: `${root}/bin:/usr/bin:/bin`, HOME: root, WORK_DIR: join(root, "workspace") },
  })
  expect(out).toMatch(/^OWN:(\d+) FILE:\1\n$/)
})

test("start.sh passes its arguments to the runner", async () => {
  expect((await start({}, ["up", "--model", "a/b"])).tagged("ARGS")).toEqual(["up --model a/b"])
})

test("start.sh can run twice in the same directory without a warning", async () => {
  const first = await start()
  const second = await start()
  expect(second.code).toBe(first.code)
  expect(second.err).toBe("")
})

test("start.sh sets missing environment variables and keeps those that are set", async () => {
  const { tagged } = await start({ DISPLAY: ":7" })
  expect(tagged("ENV")).toContain("DISPLAY=:7")
  expect(tagged("ENV")).toContain("LANG=C.UTF-8")
  expect(tagged("ENV")).toContain("SANDPIPER_SERVICES=all")
})

describe("secrets of start.sh", () => {
  const values = {
    RUNNER_TOKEN: "first-secret-value",
    JWT_SECRET: "two with spaces and 'quotes' and \"more\" and $HOME",
    OPENCODE_SERVER_PASSWORD: "three\nlines\nof it",
    GITHUB_TOKEN: "fourth-secret-value",
    ANTHROPIC_API_KEY: "fifth-secret-value",
    OP_SERVICE_ACCOUNT_TOKEN: "sixth-secret-value",
    REPOS_JSON: '[{"url":"https://a.example/b","token":"seven"}]',
    REPO_URL: "https://me:eight@git.example/x.git",
  }

  test("secrets are removed from the environment and reach the runner unchanged through the pipe", async () => {
    const { tagged } = await start({ ...values, SESSION_ID: "s1", MY_SETTING: "kept" })
    const shown = tagged("ENV").join("\n")
    for (const value of Object.values(values)) expect(shown).not.toContain(value.split("\n")[0])
    expect(shown).toContain("SESSION_ID=s1")
    expect(shown).toContain("MY_SETTING=kept")
    const handed = tagged("SECRET").join("\n")
    for (const [name, value] of Object.entries(values)) expect(handed).toContain(`${name}=${value}`)
  })

  test("secrets may be larger than the capacity of a pipe", async () => {
    const { tagged } = await start({ BIG_KEY: "x".repeat(100_000) })
    expect(tagged("SECRET").join("")).toHaveLength("BIG_KEY=".length + 100_000)
  })

  test("start.sh opens no pipe when there are no secrets", async () => {
    expect((await start()).out).not.toContain("SANDPIPER_SECRETS_FD")
  })

  test("a URL without a password is not treated as a secret", async () => {
    const { tagged } = await start({ REPO_URL: "https://git.example/x.git" })
    expect(tagged("ENV")).toContain("REPO_URL=https://git.example/x.git")
  })

  test("every setting that holds a secret has a name that start.sh recognizes", async () => {
    // The help lists every variable. A variable that the settings treat as secret must match a pattern of start.sh.
    const names = [...helpPage("settings", "x").matchAll(/^ {2}([A-Z][A-Z_]+) /gm)].map(
      ([, name]) => name ?? "",
    )
    const script = await Bun.file(join(repositoryRoot, "start.sh")).text()
    const shape = /^ +(\*_TOKEN.*)\) secrets/m.exec(script)?.[1] ?? ""
    const taken = shape.split(" | ").map((one) => new RegExp(`^${one.replace("*", ".*")}$`))
    for (const name of names) {
      const value =
        name === "REPOS_JSON"
          ? '[{"url":"https://a.example/b","token":"long-enough-token"}]'
          : `value-of-${name}-0123456789`
      let secrets: readonly string[] = []
      try {
        const invocation = readInvocation(["up"], { [name]: value }, "/")
        if (invocation.want === "command") secrets = invocation.settings.secrets
      } catch {
        // The setting has another format (a port, a number), so it cannot be a secret.
      }
      if (secrets.length > 0)
        expect({ name, taken: taken.some((one) => one.test(name)) }).toEqual({ name, taken: true })
    }
    expect(names).toContain("GITHUB_TOKEN")
  })
})

describe("the runner's end of the secrets pipe", () => {
  test("the runner adds the secrets of the pipe to the environment, removes the descriptor variable and closes the pipe", async () => {
    await writeFile(join(root, "pipe"), "A_TOKEN=x=y\0B_SECRET=two\nlines\0")
    const { openSync } = await import("node:fs")
    const fd = openSync(join(root, "pipe"), "r")
    expect(withSecrets({ PATH: "/bin", SANDPIPER_SECRETS_FD: String(fd) })).toEqual({
      PATH: "/bin",
      A_TOKEN: "x=y",
      B_SECRET: "two\nlines",
    })
    expect(() => withSecrets({ SANDPIPER_SECRETS_FD: String(fd) })).toThrow("cannot be read")
  })

  test.each(["", "1", "many", "-3"])("the runner refuses %p as a file descriptor", (text) => {
    expect(() => withSecrets({ SANDPIPER_SECRETS_FD: text })).toThrow("SANDPIPER_SECRETS_FD")
  })
})

describe("the runner's secrets file", () => {
  test("the secrets file overrides the environment each time it is read", async () => {
    const file = join(root, "secrets")
    const env = { PATH: "/bin", RUNNER_TOKEN: "old", RUNNER_SECRETS_FILE: file }
    await writeFile(file, "RUNNER_TOKEN=x=y\nnot an assignment\n", { mode: 0o600 })
    expect(withSecretsFile(env)).toEqual({ ...env, RUNNER_TOKEN: "x=y" })
    await writeFile(file, "RUNNER_TOKEN=newer\n")
    expect(withSecretsFile(env)["RUNNER_TOKEN"]).toBe("newer")
  })

  test("a secrets file that is missing or readable by others is refused", async () => {
    const file = join(root, "secrets")
    const read = () => withSecretsFile({ RUNNER_SECRETS_FILE: file })
    expect(read).toThrow("RUNNER_SECRETS_FILE")
    await writeFile(file, "A=b", { mode: 0o644 })
    expect(read).toThrow("RUNNER_SECRETS_FILE")
  })
})

describe("start.sh that cannot start", () => {
  test("start.sh without a workspace reports the failure and runs the doctor", async () => {
    await writeFile(join(root, "file"), "")
    const { err, code } = await start({ WORK_DIR: join(root, "file/below") })
    expect(code).toBe(1)
    expect(err).toContain("cannot start")
    expect(err).toContain("the doctor was here")
  })

  test("start.sh without the runner on PATH reports that and exits with code 127", async () => {
    const { err, code } = await start({ PATH: "/usr/bin:/bin" })
    expect(code).toBe(127)
    expect(err).toContain("sandpiper is not on PATH")
  })
})
