/** Calls of a Durable Object to a fleet that accepts the connection and never answers. */
import { afterEach, expect, spyOn, test } from "bun:test"
import { askGatewayUrl, tellFleet } from "../../../../src/hub/hosts/durable/fleet.ts"
import type { DurableEnvironment } from "../../../../src/hub/hosts/durable/runtime-types.ts"

const environment = {
  FLEET: { fetch: () => new Promise<Response>(() => {}) },
  FLEET_KEY: "a key of the fleet for tests only",
} as unknown as DurableEnvironment
const report = { session: "s", owner: "user:ann", activity: {} } as unknown as Parameters<
  typeof tellFleet
>[1]

/** The deadline passes at once. */
const { setTimeout: later } = globalThis
const timers = spyOn(globalThis, "setTimeout")
afterEach(() => timers.mockRestore())

test("a report that the fleet never answers is a failed one, so that it is repeated, and a link is made without it", async () => {
  timers.mockImplementation(((run: () => void) => later(run, 0)) as typeof setTimeout)
  expect(await tellFleet(environment, report).catch(String)).toContain("does not answer")
  expect(await askGatewayUrl(environment, "s")).toBeUndefined()
})
