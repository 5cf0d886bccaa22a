/** Which variables of the deployment the sandboxes of an owner get. */
import { expect, test } from "bun:test"
import { sandboxEnvironment } from "../../src/cli/sandbox-environment.ts"
import { assembleEnvironment } from "../../src/fleet/core/environment.ts"

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
