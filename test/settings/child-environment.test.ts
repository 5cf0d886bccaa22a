/** The environment of a child session's runner. */
import { expect, test } from "bun:test"
import { childEnvironment } from "../../src/settings/reaches.ts"
import { settingRows } from "../../src/settings/table.ts"

test("a child gets the machine's variables, the providers' keys and the settings of the agent", () => {
  const passed = {
    PATH: "/bin",
    HTTPS_PROXY: "http://proxy",
    LC_ALL: "C",
    ANTHROPIC_API_KEY: "k",
    AWS_REGION: "eu",
    OPENCODE_BIN: "/opencode",
    GITHUB_TOKEN: "t",
    GIT_TOKENS: "session",
    LOG_LEVEL: "info",
    APPROVE_ACTIONS: "create-pull-request",
    GIT_PULL_ON_RESTORE: "never",
  }
  expect(childEnvironment(passed)).toEqual(passed)
})

test("a child gets nothing of its parent's runner, even if AGENT_ENV_ALLOW names it", () => {
  const ofParent = {
    SANDPIPER_SERVICES: "all",
    SANDPIPER_STATE_DIR: "/state",
    SANDPIPER_API_TOKEN: "t",
    VSCODE_PORT: "1",
    VNC_RAW_PORT: "2",
    HUB_PORT: "3",
    REPO_URL: "https://example.com/r.git",
    REPOS_JSON: "[]",
    DISPLAY: ":99",
    RUNNER_TOKEN: "t",
    JWT_SECRET: "s",
    DO_WS_URL: "wss://example.com",
    IS_ORCHESTRATOR: "1",
    E2B_API_KEY: "k",
    DAYTONA_API_KEY: "k",
    MODAL_TOKEN_ID: "i",
    MODAL_TOKEN_SECRET: "k",
    SOMETHING_ELSE: "x",
  }
  const { SOMETHING_ELSE: _other, ...named } = ofParent
  const allow = { AGENT_ENV_ALLOW: [...Object.keys(named), "MINE"].join(","), MINE: "yes" }
  expect(childEnvironment({ ...ofParent, ...allow })).toEqual(allow)
})

test("of the settings of this program, a child inherits only those that may be the same for both", () => {
  const all = Object.fromEntries(settingRows.map(([, { env }]) => [env, "x"]))
  const inherited = Object.keys(childEnvironment({ ...all, AGENT_ENV_ALLOW: "" }))
  expect(
    inherited.filter((name) => /PORT$|^REPO|TOKEN$|SERVICES|DISPLAY|DIR$|SECRET$/.test(name)),
  ).toEqual(["GITHUB_TOKEN", "OP_SERVICE_ACCOUNT_TOKEN"].toSorted())
})
