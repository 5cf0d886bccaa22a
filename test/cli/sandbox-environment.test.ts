/** Which variables of the deployment the sandboxes of an owner get. */
import { expect, test } from "bun:test"
import { namesWithoutEffect, sandboxEnvironment } from "../../src/cli/sandbox-environment.ts"
import { assembleEnvironment } from "../../src/fleet/core/environment.ts"
import { imageEnvironment } from "../../src/settings/reaches.ts"
import { settingGroups, settingRows } from "../../src/settings/table.ts"

const deployment = {
  PATH: "/usr/bin",
  ANTHROPIC_API_KEY: "sk-of-the-deployment",
  GITHUB_TOKEN: "ghp_of_the_operator",
  GITHUB_TOKENS: JSON.stringify({ "user:alice": "ghp_of_alice" }),
  OP_SERVICE_ACCOUNT_TOKEN: "ops_of_the_operator",
  GIT_USER_EMAIL: "operator@example.com",
  FLEET_KEY: "a key of the fleet for tests only",
  DATABASE_URL: "postgres://user:password@127.0.0.1/db",
  HUB_ENCRYPTION_KEY: "a key of the hub",
}

const valuesOf = (tenant: string) =>
  assembleEnvironment({ ...sandboxEnvironment(deployment)(tenant), caller: {}, core: {} })

test("the operator's sandboxes get the operator's accounts, and no secret of the deployment", () => {
  expect(valuesOf("user:local")).toEqual({
    PATH: "/usr/bin",
    ANTHROPIC_API_KEY: "sk-of-the-deployment",
    GITHUB_TOKEN: "ghp_of_the_operator",
    OP_SERVICE_ACCOUNT_TOKEN: "ops_of_the_operator",
    GIT_USER_EMAIL: "operator@example.com",
  })
})

test("the sandboxes of another owner get provider keys and their own token, never the operator's accounts", () => {
  expect(valuesOf("user:alice")).toEqual({
    PATH: "/usr/bin",
    ANTHROPIC_API_KEY: "sk-of-the-deployment",
    GITHUB_TOKEN: "ghp_of_alice",
  })
  expect(Object.values(valuesOf("org:acme"))).toEqual(["/usr/bin", "sk-of-the-deployment"])
})

test("a caller replaces neither the link nor the session's keys", () => {
  const environment = assembleEnvironment({
    ...sandboxEnvironment(deployment)("user:alice"),
    caller: { ANTHROPIC_API_KEY: "sk-own", RUNNER_TOKEN: "forged", SESSION_ID: "another" },
    core: { RUNNER_TOKEN: "real", SESSION_ID: "s1" },
  })
  expect(environment).toMatchObject({
    ANTHROPIC_API_KEY: "sk-own",
    RUNNER_TOKEN: "real",
    SESSION_ID: "s1",
  })
})

test("sandboxes of a deployment with object storage save their workspace and get no key of the storage", () => {
  const storage = {
    S3_ENDPOINT: "https://s3.example",
    S3_ACCESS_KEY_ID: "key",
    S3_SECRET_ACCESS_KEY: "secret",
  }
  const { providerKeys } = sandboxEnvironment(storage)("user:alice")
  expect(providerKeys).toEqual({ WORKSPACE_SYNC: "1" })
  expect(sandboxEnvironment({})("user:alice").providerKeys).toEqual({})
  expect(sandboxEnvironment({ WORKSPACE_SYNC: "1" })("user:alice").providerKeys).toEqual({
    WORKSPACE_SYNC: "1",
  })
})

test("every sandbox starts the services that the deployment names", () => {
  const environmentOf = sandboxEnvironment({ SANDPIPER_SERVICES: "vscode,vnc" })
  expect(environmentOf("user:alice").providerKeys).toEqual({ SANDPIPER_SERVICES: "vscode,vnc" })
  expect(sandboxEnvironment({ SANDPIPER_SERVICES: "" })("user:alice").providerKeys).toEqual({})
})

test("what an operator decides about the runners of all sandboxes reaches every owner's, also in an image", () => {
  const decided = {
    APPROVE_ACTIONS: "create-pull-request",
    GIT_PULL_ON_RESTORE: "never",
    GIT_PULL_EVERY_SECONDS: "60",
    SNAPSHOT_HAS_DEPS: "0",
    ALLOW_SHARED_ORIGIN: "1",
  }
  for (const tenant of ["user:local", "user:alice", "org:acme", "pool"]) {
    const sources = sandboxEnvironment(decided)(tenant)
    const environment = assembleEnvironment({ ...sources, caller: {}, core: {} })
    expect(imageEnvironment(environment)).toEqual(decided)
  }
})

test("a caller adds actions that wait for a person's yes, and takes none away", () => {
  const actionsWith = (deployed: string, caller: Readonly<Record<string, string>>) =>
    assembleEnvironment({
      ...sandboxEnvironment({ APPROVE_ACTIONS: deployed })("user:alice"),
      caller,
      core: {},
    })["APPROVE_ACTIONS"]
  expect(actionsWith("create-pull-request", { APPROVE_ACTIONS: "" })).toBe("create-pull-request")
  expect(actionsWith("create-pull-request", { APPROVE_ACTIONS: "register-tunnel" })).toBe(
    "create-pull-request,register-tunnel",
  )
  expect(actionsWith("", { APPROVE_ACTIONS: "register-tunnel" })).toBe("register-tunnel")
})

test("every setting is read by serve, reaches the sandboxes, or is named as one without effect", () => {
  const ofServe = new Set([
    ...[
      "Access to the session agent",
      "Chats",
      "Sandboxes",
      "Local sandboxes",
      "Sandbox providers",
      "Object storage",
      "Sandbox clouds",
    ].flatMap((group) =>
      Object.values(settingGroups[group as keyof typeof settingGroups]).map(({ env }) => env),
    ),
    "ALLOWED_ORIGINS",
    "HUB_PORT",
    "MAX_CHILDREN",
    "MAX_CHILD_DEPTH",
    "PAGE_ORIGIN",
    "RUNNER_SECRETS_FILE",
    "SANDBOX_ORIGIN",
    "SANDPIPER_STATE_DIR",
    "WORK_DIR",
    // Of the desktop that `serve` is started on.
    "DISPLAY",
  ])
  const reachesSandboxes = (name: string) => {
    const sources = sandboxEnvironment({ [name]: "1" })("user:local")
    return name in assembleEnvironment({ ...sources, caller: {}, core: {} })
  }
  const unread = settingRows
    .map(([, { env }]) => env)
    .filter((name) => !ofServe.has(name) && !reachesSandboxes(name))
  expect(unread.toSorted()).toEqual(
    [...namesWithoutEffect(Object.fromEntries(unread.map((name) => [name, "1"])))].toSorted(),
  )
  expect(namesWithoutEffect({ SESSION_KIND: "setup", REPO_URL: "", PATH: "/usr/bin" })).toEqual([
    "SESSION_KIND",
  ])
})
