/** Which runner of the fleet a session admits. */
import { expect, test } from "bun:test"
import { refusalOfRunner } from "../../../src/hub/session/admit-runner.ts"
import type { SessionActivity } from "../../../src/hub/session/ports.ts"

const activity = (over: Partial<SessionActivity>) =>
  ({ hasEnded: false, hasOtherRunner: false, generation: 3, ...over }) as SessionActivity

test("a session admits a runner of a later generation", () => {
  expect(refusalOfRunner(activity({}), 4)).toBeUndefined()
})

test("a late call for an earlier runner does not shut the present one out", () => {
  for (const generation of [2, 3])
    expect(refusalOfRunner(activity({}), generation)).toEqual({
      status: 409,
      why: "generation 3 is in use already",
    })
})

test("a session that has ended or has another program's runner admits none", () => {
  expect(refusalOfRunner(activity({ hasEnded: true }), 4)).toMatchObject({ status: 410 })
  expect(refusalOfRunner(activity({ hasOtherRunner: true }), 4)).toMatchObject({ status: 409 })
})
