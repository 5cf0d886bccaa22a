/** Settings that are reread after a restore. */
import { expect, test } from "bun:test"
import { createCurrentSettings } from "../../src/runner/current-settings.ts"
import { readInvocation, type Settings } from "../../src/settings/settings.ts"
import { silentLog as log } from "../kit/log.ts"

const settingsWith = (token: string): Settings => {
  const invocation = readInvocation(["up"], { RUNNER_TOKEN: token }, "/")
  if (invocation.want !== "command") throw new Error("not a command")
  return invocation.settings
}

test("rereading replaces the settings and the token for the next connection", () => {
  const current = createCurrentSettings({
    initial: settingsWith("old"),
    readAgain: () => settingsWith("new"),
    log,
  })
  expect(current.rereadRunnerToken()).toBe("old")
  current.reread()
  expect(current.get().runnerToken).toBe("new")
  expect(current.rereadRunnerToken()).toBe("new")
})

test("settings that cannot be reread keep their values", () => {
  const current = createCurrentSettings({
    initial: settingsWith("old"),
    readAgain: () => {
      throw new Error("the file is gone")
    },
    log,
  })
  current.reread()
  expect(current.get().runnerToken).toBe("old")
})

test("without a way to reread, the link keeps its own token", () => {
  const current = createCurrentSettings({ initial: settingsWith("a"), readAgain: undefined, log })
  current.reread()
  expect(current.rereadRunnerToken()).toBeUndefined()
})
