/** Which processes get a variable: the rules that hold for every row of the settings table. */
import { expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { childEnvironment, imageEnvironment, mayReach } from "../../src/settings/reaches.ts"
import { settingRows } from "../../src/settings/table.ts"

const rows = settingRows.map(([, setting]) => setting)
const namesThatReach = (destination: Parameters<typeof mayReach>[0]) =>
  rows.map(({ env }) => env).filter((name) => mayReach(destination, name))

test("the agent gets no setting but the display that it draws on", () => {
  expect(namesThatReach("agent")).toEqual(["DISPLAY"])
})

test("of the secrets, only the operator's accounts and the key of a tool leave this process", () => {
  const secrets = rows.filter(({ secret }) => secret)
  const left = secrets.filter(({ reaches }) => reaches.length > 0)
  expect(left.map(({ env, reaches }) => `${env}: ${reaches.join(" ")}`).toSorted()).toEqual([
    "GITHUB_TOKEN: child operator image",
    "OP_SERVICE_ACCOUNT_TOKEN: child operator image",
    "PARALLEL_API_KEY: child sandbox image",
  ])
})

test("no variable goes both to every sandbox and to the operator's only", () => {
  const everybody = namesThatReach("sandbox")
  expect(namesThatReach("operator").filter((name) => everybody.includes(name))).toEqual([])
})

test("a setting that the fleet or a session sets in each sandbox comes from nowhere else", () => {
  const ofOneSandbox = rows.filter(({ setBy }) => setBy === "fleet" || setBy === "session")
  expect(ofOneSandbox.filter(({ reaches }) => reaches.length > 0)).toEqual([])
})

test("an image gets no path, user or program of this machine", () => {
  const environment = {
    PATH: "/bin",
    HOME: "/root",
    AGENT_USER: "me",
    OPENCODE_BIN: "/o",
    TZ: "UTC",
  }
  expect(imageEnvironment(environment)).toEqual({ TZ: "UTC" })
  expect(childEnvironment(environment)).toEqual(environment)
})

test("start.sh hides every secret of the settings table", async () => {
  const script = await readFile(join(import.meta.dir, "../../start.sh"), "utf8")
  const patterns = /^ +(\*_TOKEN .*)\) secrets/m.exec(script)?.[1]?.split(" | ") ?? []
  const isHidden = (name: string) => patterns.some((pattern) => new Bun.Glob(pattern).match(name))
  const shown = rows.filter(({ env, secret }) => secret && !isHidden(env))
  expect(shown.map(({ env }) => env)).toEqual([])
})
