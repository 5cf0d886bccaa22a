import { expect, test } from "bun:test"
import { closeReasonOf, closeReasons } from "../../src/wire/close-reasons.ts"

test("the close reasons are the texts that deployed session agents send", () => {
  expect(closeReasons).toEqual({
    replaced: "Replaced by new runner connection",
    terminated: "Session terminated",
    hibernating: "Session hibernating",
    exited: "Sandbox already exited",
  })
})

test("a close reason is recognized with text around it, and any other text is not a reason", () => {
  expect(closeReasonOf("Session terminated")).toBe("terminated")
  expect(closeReasonOf("1000: Session hibernating.")).toBe("hibernating")
  expect(closeReasonOf("Session refreshing")).toBeUndefined()
  expect(closeReasonOf("")).toBeUndefined()
})
