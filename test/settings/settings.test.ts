import { describe, expect, test } from "bun:test"
import { SettingsError, printableSettings, readInvocation } from "../../src/settings/settings.ts"
import { helpText } from "../../src/cli/help.ts"
import type { Environment } from "../../src/settings/table.ts"

const complete = {
  DO_WS_URL: "wss://agent.example/ws",
  RUNNER_TOKEN: "token-of-the-runner",
  SESSION_ID: "s1",
  JWT_SECRET: "sixteen characters",
  HOME: "/home/someone",
}

const read = (argv: readonly string[], env: Environment = complete) => {
  const invocation = readInvocation(argv, env, "/somewhere")
  if (invocation.want !== "command") throw new Error(`got ${invocation.want}`)
  return invocation.config
}

const problem = (argv: readonly string[], env: Environment = complete): string => {
  try {
    read(argv, env)
  } catch (error) {
    if (error instanceof SettingsError) return error.message
    throw error
  }
  throw new Error("no error")
}

describe("the command line", () => {
  test("without any word shows the help", () => {
    expect(readInvocation([], {}, "/")).toEqual({ want: "help" })
  })

  test("asks for help and version anywhere, needing no setting", () => {
    expect(readInvocation(["run", "--help"], {}, "/")).toEqual({ want: "help" })
    expect(readInvocation(["--version"], {}, "/")).toEqual({ want: "version" })
  })

  test("with flags and no command means run", () => {
    const config = read([
      "--opencode-url",
      "http://localhost:4096",
      "--do-url",
      "wss://other.example/x?y=1",
      "--runner-token",
      "other-token",
      "--session-id",
      "s2",
      "--gateway-port",
      "9001",
    ])
    expect(config).toMatchObject({
      command: "run",
      doUrl: "wss://other.example/x?y=1",
      runnerToken: "other-token",
      sessionId: "s2",
      gatewayPort: 9001,
      opencodeUrl: "http://localhost:4096",
    })
  })

  test("takes --flag=value, and a flag wins over its variable", () => {
    expect(read(["run", "--session-id=s3"]).sessionId).toBe("s3")
  })

  test.each([
    [["run", "--no-such-flag", "x"], 'unknown flag "--no-such-flag"'],
    [["run", "stray"], 'unknown flag "stray"'],
    [["fly"], 'unknown command "fly"'],
    [["run", "--session-id"], "--session-id needs a value"],
    [["run", "--session-id", "a", "--session-id", "b"], "--session-id is given twice"],
    [["hook"], "hook needs one of: pre-snapshot, post-snapshot"],
    [["hook", "post-office"], 'unknown flag "post-office"'],
  ])("%j is refused with a word on what is wrong", (argv, words) => {
    expect(problem(argv)).toContain(words)
  })
})

describe("settings", () => {
  test("missing ones are all named, with what each is for", () => {
    const told = problem(["run"], {})
    for (const name of ["DO_WS_URL (--do-url)", "RUNNER_TOKEN", "SESSION_ID", "JWT_SECRET"]) {
      expect(told).toContain(name)
    }
  })

  test.each([
    ["DO_WS_URL", "https://agent.example", "must be a wss:// URL"],
    ["DO_WS_URL", "ws://agent.example", "must be a wss:// URL"],
    ["DO_WS_URL", "nonsense", "must be a wss:// URL"],
    ["JWT_SECRET", "fifteen chars..", "at least 16 characters"],
    ["OPENCODE_SERVER_PASSWORD", "short", "at least 16 characters"],
    ["GATEWAY_PORT", "70000", "must be a port number"],
    ["GATEWAY_PORT", "9000x", "must be a port number"],
    ["OPENCODE_URL", "http://example.com:4096", "loopback"],
    ["CONFIG_WAIT_SECONDS", "-1", "must not be negative"],
    ["SESSION_ID", "../etc", "must be 1 to 128"],
    ["LOG_LEVEL", "loud", "must be debug, info, warn or error"],
    ["SANDPIPER_MODEL", "model-without-provider", "must be provider/model"],
    ["REPO_URL", "ext::sh -c true", "must be an https:// or ssh:// address"],
    ["REPO_URL", "http://git.example/x.git", "must be an https:// or ssh:// address"],
    ["REPO_URL", "--upload-pack=true", "must be an https:// or ssh:// address"],
    ["REPO_BRANCH", "--force", "must be a branch, a tag or a commit"],
    ["REPO_REF", "a..b", "must be a branch, a tag or a commit"],
    ["REPO_DEPTH", "0", "must be at least 1"],
    ["REPOS_JSON", "{}", "must be a JSON list of {url"],
    ["REPOS_JSON", '[{"url":"https://a.example/b","name":"../x"}]', "must be a directory's name"],
    ["PERSONA_FILES_JSON", "not json", "must be a JSON list of {filename"],
    ["PERSONA_FILES_JSON", '[{"filename":1}]', "must be a JSON list of {filename"],
    ["SANDPIPER_SERVICES", "vnc,fax", "must be all, none, or some of"],
    ["GIT_PULL_ON_RESTORE", "sometimes", "must be never, restore or always"],
  ])("%s=%s is refused, naming it and what it must be", (name, value, words) => {
    const told = problem(["run"], { ...complete, [name]: value })
    expect(told).toContain(name)
    expect(told).toContain(words)
    expect(told).not.toContain(value === "short" ? "short " : "fifteen")
  })

  test.each(["ws://localhost:8787/ws", "ws://127.0.0.1:1/", "ws://[::1]:2/"])(
    "%s needs no TLS, since it never leaves the machine",
    (url) => expect(read(["run"], { ...complete, DO_WS_URL: url }).doUrl).toBe(url),
  )

  test("an empty variable counts as none", () => {
    expect(problem(["run"], { ...complete, RUNNER_TOKEN: "" })).toContain("RUNNER_TOKEN")
    expect(read(["run"], { ...complete, GATEWAY_PORT: "" }).gatewayPort).toBe(9000)
  })

  test("up needs none of them", () => {
    const config = read(["up"], { HOME: "/home/someone" })
    expect(config).toMatchObject({ command: "up", sessionId: "local", workDir: "/somewhere" })
    expect(config.gatewayHost).toBe("127.0.0.1")
  })

  test("state lives below the user's state directory unless said otherwise", () => {
    expect(read(["run"]).stateDir).toBe("/home/someone/.local/state/sandpiper")
    expect(read(["run"], { ...complete, SANDPIPER_STATE_DIR: "here" }).stateDir).toBe(
      "/somewhere/here",
    )
  })

  test("cannot be changed afterwards", () => {
    expect(Object.isFrozen(read(["run"]))).toBeTrue()
  })
})

describe("printing", () => {
  test("the Config shows no secret", () => {
    const printed = JSON.stringify(printableSettings(read(["run"])))
    expect(printed).not.toContain(complete.RUNNER_TOKEN)
    expect(printed).not.toContain(complete.JWT_SECRET)
    expect(printed).toContain("wss://agent.example/ws")
  })

  test("every secret is known to the log", () => {
    const config = read(["run"], { ...complete, OPENCODE_SERVER_PASSWORD: "another long secret" })
    expect(config.secrets.toSorted()).toEqual(
      [complete.RUNNER_TOKEN, complete.JWT_SECRET, "another long secret"].toSorted(),
    )
  })

  test("the help names every variable of the table", () => {
    const help = helpText("1.2.3")
    for (const name of ["DO_WS_URL", "RUNNER_TOKEN", "SANDPIPER_STATE_DIR", "LOG_FORMAT"]) {
      expect(help).toContain(name)
    }
  })
})

test("ALLOWED_ORIGINS are origins as browsers write them", () => {
  const originsOf = (origins: string) => {
    const invocation = readInvocation(["up"], { ALLOWED_ORIGINS: origins }, "/tmp")
    return invocation.want === "command" ? invocation.config.allowedOrigins : undefined
  }
  expect(originsOf("https://App.example.com, http://localhost:3000")).toEqual([
    "https://app.example.com",
    "http://localhost:3000",
  ])
  for (const wrong of ["*", "app.example.com", "https://a.example/path", "https://a.example:443"]) {
    expect(() => originsOf(wrong)).toThrow("ALLOWED_ORIGINS must be origins separated by commas")
  }
})
