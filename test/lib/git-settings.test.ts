/** Settings of git by its environment. */
import { expect, test } from "bun:test"
import { gitSettings } from "../../src/lib/git-settings.ts"

test("a setting whose name contains = or a space reaches git under its whole name", () => {
  const names = ["filter.a=b.clean", "filter.a b.clean", "filter.ä.b=.clean", "filter..clean"]
  for (const name of names) {
    const { stdout } = Bun.spawnSync(["git", "config", "--get", name], {
      cwd: "/",
      env: { PATH: process.env["PATH"], ...gitSettings([[name, "of the runner"]]) },
    })
    expect([name, stdout.toString()]).toEqual([name, "of the runner\n"])
  }
})

test("settings that the environment has already stay", () => {
  const before = gitSettings([["a.b", "1"]])
  expect({ ...before, ...gitSettings([["c.d", "2"]], before) }).toEqual({
    GIT_CONFIG_COUNT: "2",
    GIT_CONFIG_KEY_0: "a.b",
    GIT_CONFIG_VALUE_0: "1",
    GIT_CONFIG_KEY_1: "c.d",
    GIT_CONFIG_VALUE_1: "2",
  })
})
