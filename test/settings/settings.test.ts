/** Command line and environment -> settings: what is accepted, and the error for everything else. */
import { describe, expect, test } from "bun:test"
import { printableSettings, readInvocation } from "../../src/settings/settings.ts"
import { SettingsError } from "../../src/settings/settings-error.ts"
import { helpPage } from "../../src/cli/help.ts"
import { type CommandName, commands } from "../../src/settings/commands.ts"
import type { Environment } from "../../src/settings/setting.ts"

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
  return invocation.settings
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

describe("a variable that other programs use, too", () => {
  const mysql = { ...complete, DATABASE_URL: "mysql://root:a-password@127.0.0.1/shop" }

  test("only `serve` reads DATABASE_URL, so a MySQL address in a shell stops no other command", () => {
    for (const command of ["run", "up", "chat", "sessions", "doctor"]) {
      expect(read([command], mysql).databaseUrl).toBeUndefined()
    }
    expect(problem(["serve"], mysql)).toContain("DATABASE_URL must be a postgres:// URL")
    const postgres = "postgres://u:p@127.0.0.1/db"
    expect(read(["serve"], { ...complete, DATABASE_URL: postgres }).databaseUrl).toBe(postgres)
  })

  test("a DATABASE_URL that is not read is still kept out of the log", () => {
    expect(read(["up"], mysql).secrets).toContain(mysql.DATABASE_URL)
  })
})

describe("the command line", () => {
  test("an empty command line shows the help", () => {
    expect(readInvocation([], {}, "/")).toEqual({ want: "help" })
  })

  test("--help and --version work at any position and without any setting", () => {
    expect(readInvocation(["run", "--help"], {}, "/")).toEqual({ want: "help", topic: "run" })
    expect(readInvocation(["--version"], {}, "/")).toEqual({ want: "version" })
  })

  test("flags without a command mean `run`", () => {
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

  test("--flag=value is accepted, and a flag takes precedence over its variable", () => {
    expect(read(["run", "--session-id=s3"]).sessionId).toBe("s3")
  })

  test.each([
    [["run", "--no-such-flag", "x"], 'unknown flag "--no-such-flag"'],
    [["run", "stray"], 'unexpected argument "stray"'],
    [["sessions", "s1", "s2"], 'unexpected argument "s1"'],
    [["run", "-x"], 'unknown flag "-x"'],
    [["run", "--json"], 'unknown flag "--json"'],
    [["run", "--session-id", "--do-url"], "--session-id needs a value"],
    [["chat", "--json=yes", "hello"], "--json takes no value"],
    [["chat", "-m"], "-m needs a value"],
    [["chat", "--session", "a", "--session-id", "b"], "--session-id is given twice"],
    [["workflow"], "workflow needs one of: validate, run, resume"],
    [["workflow", "run"], "workflow run needs a FILE"],
    [["workflow", "run", "a.json", "b.json"], 'unexpected argument "b.json"'],
    [["workflow", "run", "a.json", "--variables"], "--variables needs a value"],
    [["fly"], 'unknown command "fly"'],
    [["run", "--session-id"], "--session-id needs a value"],
    [["run", "--session-id", "a", "--session-id", "b"], "--session-id is given twice"],
    [["hook"], "hook needs one of: pre-snapshot, post-snapshot"],
    [["hook", "post-office"], 'pre-snapshot, post-snapshot, not "post-office"'],
    [["hook", "pre-snapshot", "now"], 'unexpected argument "now"'],
  ])("the command line %j is rejected with the error '%s'", (argv, text) => {
    expect(problem(argv)).toContain(text)
  })

  test("chat takes words as one text, short flags and --json", () => {
    const argv = ["chat", "what", "-m", "a/b", "changed?", "--session=s9", "--json"]
    const invocation = readInvocation(argv, complete, "/")
    expect(invocation).toMatchObject({
      settings: { command: "chat", model: "a/b", sessionId: "s9" },
      args: { text: "what changed?", json: true },
    })
  })

  test("words after -- are text even if they look like flags", () => {
    const invocation = readInvocation(["chat", "--", "--help", "-5"], complete, "/")
    expect(invocation).toMatchObject({ args: { text: "--help -5" } })
  })

  test("workflow takes an operand, a file and its own flags in any order", () => {
    const argv = ["workflow", "--deny", "resume", "--variables", '{"a":1}', "-"]
    expect(readInvocation(argv, complete, "/")).toMatchObject({
      settings: { operand: "resume" },
      args: { workflow: { file: "-", variables: '{"a":1}', deny: true } },
    })
  })
})

describe("settings", () => {
  test("one error names all missing settings", () => {
    const message = problem(["run"], {})
    for (const name of ["DO_WS_URL (--do-url)", "RUNNER_TOKEN", "SESSION_ID", "JWT_SECRET"]) {
      expect(message).toContain(name)
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
    ["SANDPIPER_MODEL", "two words", "must be a model or provider/model"],
    ["OPENAI_BASE_URL", "localhost:8000", "must be an http:// or https:// URL without a user"],
    [
      "OPENAI_BASE_URL",
      "http://me:pw@host/v1",
      "must be an http:// or https:// URL without a user",
    ],
    ["ANTHROPIC_BASE_URL", "ftp://host", "must be an http:// or https:// URL without a user"],
    ["SANDPIPER_LOCAL_MODELS", "here", "must be http:// or https:// URLs separated by commas"],
    ["SANDPIPER_TOOLS", "most", "must be core, team or all"],
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
  ])("%s=%s is rejected with an error that contains '%s'", (name, value, text) => {
    const message = problem(["run"], { ...complete, [name]: value })
    expect(message).toContain(name)
    expect(message).toContain(text)
    expect(message).not.toContain(value === "short" ? "short " : "fifteen")
  })

  test.each(["ws://localhost:8787/ws", "ws://127.0.0.1:1/", "ws://[::1]:2/"])(
    "the loopback address %s is accepted without TLS",
    (url) => expect(read(["run"], { ...complete, DO_WS_URL: url }).doUrl).toBe(url),
  )

  test("an empty variable counts as not set", () => {
    expect(problem(["run"], { ...complete, RUNNER_TOKEN: "" })).toContain("RUNNER_TOKEN")
    expect(read(["run"], { ...complete, GATEWAY_PORT: "" }).gatewayPort).toBe(9000)
  })

  test("up requires no settings", () => {
    const config = read(["up"], { HOME: "/home/someone" })
    expect(config).toMatchObject({ command: "up", sessionId: "local", workDir: "/somewhere" })
    expect(config.gatewayHost).toBe("127.0.0.1")
  })

  test("the default state directory is below the user's state home", () => {
    expect(read(["run"]).stateDir).toBe("/home/someone/.local/state/sandpiper")
    expect(read(["run"], { ...complete, SANDPIPER_STATE_DIR: "here" }).stateDir).toBe(
      "/somewhere/here",
    )
  })

  test("settings are frozen", () => {
    expect(Object.isFrozen(read(["run"]))).toBeTrue()
  })
})

describe("printed settings and help", () => {
  test("printed settings contain no secret", () => {
    const printed = JSON.stringify(printableSettings(read(["run"])))
    expect(printed).not.toContain(complete.RUNNER_TOKEN)
    expect(printed).not.toContain(complete.JWT_SECRET)
    expect(printed).toContain("wss://agent.example/ws")
  })

  test("every secret value is collected for the log's redaction", () => {
    const config = read(["run"], { ...complete, OPENCODE_SERVER_PASSWORD: "another long secret" })
    expect(config.secrets.toSorted()).toEqual(
      [complete.RUNNER_TOKEN, complete.JWT_SECRET, "another long secret"].toSorted(),
    )
  })

  test("the help says for which commands the limits of child sessions and the default of the tools are", () => {
    const page = helpPage("settings", "1.2.3")
    expect(page).toMatch(/MAX_CHILDREN .* of `up` or `serve` may have \(default 20\)/)
    expect(page).toMatch(/MAX_CHILD_DEPTH .* of `up` or `serve`/)
    expect(page).toMatch(/SANDPIPER_TOOLS .* default of `up` and `serve`: core/)
    expect(page).toMatch(/SLACK_SESSION .*`serve` needs it/)
  })

  test("the first page of the help fits on a screen of 50 lines and names every command of people and platforms", () => {
    const page = helpPage(undefined, "1.2.3")
    expect(page.split("\n").length).toBeLessThanOrEqual(50)
    for (const line of page.split("\n")) expect(line.length).toBeLessThanOrEqual(120)
    for (const [name, { group }] of Object.entries(commands))
      expect(page.includes(`\n  ${name} `)).toBe(group !== "internal")
  })

  test("the help of each command shows how to call it", () => {
    for (const name of Object.keys(commands))
      expect(helpPage(name as CommandName, "1.2.3")).toContain(`\n  sandpiper ${name}`)
  })

  test("the help of each command lists the flags that its row names, and no others", () => {
    for (const [name, { settings }] of Object.entries(commands)) {
      const page = helpPage(name as CommandName, "1.2.3")
      const listed = [...page.matchAll(/^ {2}--([a-z-]+) +(?!is )/gm)].map(([, flag]) => flag)
      expect([name, new Set(listed)]).toEqual([name, new Set(settings)])
    }
  })

  test("the help names variables of the settings table", () => {
    const help = helpPage("settings", "1.2.3")
    for (const name of ["DO_WS_URL", "RUNNER_TOKEN", "SANDPIPER_STATE_DIR", "LOG_FORMAT"]) {
      expect(help).toContain(name)
    }
  })
})

test("ALLOWED_ORIGINS accepts only origins as browsers send them", () => {
  const originsOf = (origins: string) => {
    const invocation = readInvocation(["up"], { ALLOWED_ORIGINS: origins }, "/tmp")
    return invocation.want === "command" ? invocation.settings.allowedOrigins : undefined
  }
  expect(originsOf("https://App.example.com, http://localhost:3000")).toEqual([
    "https://app.example.com",
    "http://localhost:3000",
  ])
  for (const wrong of ["*", "app.example.com", "https://a.example/path", "https://a.example:443"]) {
    expect(() => originsOf(wrong)).toThrow("ALLOWED_ORIGINS must be origins separated by commas")
  }
})

test("the times at which a cloud stops or ends a sandbox leave the fleet time to act before", () => {
  expect(read(["serve"])).toMatchObject({
    sandboxIdleBufferSeconds: 1800,
    sandboxMaxSeconds: 86_400,
  })
  const set = { ...complete, SANDBOX_IDLE_BUFFER_SECONDS: "900", SANDBOX_MAX_SECONDS: "7200" }
  expect(read(["serve"], set)).toMatchObject({
    sandboxIdleBufferSeconds: 900,
    sandboxMaxSeconds: 7200,
  })
  for (const [name, value, why] of [
    ["SANDBOX_IDLE_BUFFER_SECONDS", "899", "must be at least 900"],
    ["SANDBOX_IDLE_BUFFER_SECONDS", "soon", "must be a number of seconds"],
    ["SANDBOX_MAX_SECONDS", "7199", "must be at least two hours"],
    ["SANDBOX_MAX_SECONDS", "86401", "must be at most a day"],
  ] as const)
    expect(problem(["serve"], { ...complete, [name]: value })).toContain(`${name} ${why}`)
})

test("orphans end after ten minutes without a runner and after a day without `serve`, and 0 is never", () => {
  expect(read(["up"]).orphanSeconds).toBe(600)
  expect(read(["serve"]).sandboxOrphanSeconds).toBe(86_400)
  const never = { ...complete, ORPHAN_SECONDS: "0", SANDBOX_ORPHAN_SECONDS: "0" }
  expect(read(["run"], never).orphanSeconds).toBe(0)
  expect(read(["serve"], never).sandboxOrphanSeconds).toBe(0)
  for (const name of ["ORPHAN_SECONDS", "SANDBOX_ORPHAN_SECONDS"])
    expect(problem(["serve"], { ...complete, [name]: "soon" })).toContain(
      `${name} must be a number of seconds`,
    )
})

test("the price of a sandbox's hour is optional, and neither it nor the days of the history are negative", () => {
  expect(read(["serve"]).sandboxHistoryDays).toBe(90)
  expect(read(["serve"]).sandboxCostPerHour).toBeUndefined()
  const set = { ...complete, SANDBOX_COST_PER_HOUR: "0.12", SANDBOX_HISTORY_DAYS: "7" }
  expect(read(["serve"], set)).toMatchObject({ sandboxCostPerHour: 0.12, sandboxHistoryDays: 7 })
  for (const [name, value, why] of [
    ["SANDBOX_COST_PER_HOUR", "-1", "must not be negative"],
    ["SANDBOX_COST_PER_HOUR", "cheap", "must be a number"],
    ["SANDBOX_HISTORY_DAYS", "-1", "must not be negative"],
  ] as const)
    expect(problem(["serve"], { ...complete, [name]: value })).toContain(`${name} ${why}`)
})

test("the file with the operator's token is optional, and an empty name counts as none", () => {
  const fileOf = (name: string) =>
    read(["serve"], { ...complete, OPERATOR_TOKEN_FILE: name }).operatorTokenFile
  expect(fileOf("/run/secrets/operator-token")).toBe("/run/secrets/operator-token")
  expect(fileOf("")).toBeUndefined()
})
