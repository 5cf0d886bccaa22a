/** Signals to process groups. */
import { expect, test } from "bun:test"
import { signalGroup } from "../../src/lib/signal-group.ts"

test("a signal ends the process of the group", async () => {
  const child = Bun.spawn(["sleep", "60"], { detached: true })
  signalGroup(child.pid, "SIGKILL")
  await child.exited
  expect(child.signalCode).toBe("SIGKILL")
})

test("a group that is gone and a process that never started are ignored", async () => {
  const child = Bun.spawn(["true"], { detached: true })
  await child.exited
  signalGroup(child.pid, "SIGTERM")
  signalGroup(undefined, "SIGTERM")
})
