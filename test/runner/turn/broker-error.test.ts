/** What a person reads when the key broker could not reach a provider. */
import { expect, test } from "bun:test"
import { describeBrokerError } from "../../../src/runner/turn/broker-error.ts"

const reported = "sandpiper: anthropic at api.anthropic.com cannot be reached (EAI_AGAIN)"

test("an error of the broker names the model and the address, quoted as a body or not", () => {
  const expected = "anthropic/haiku: anthropic at api.anthropic.com cannot be reached (EAI_AGAIN)"
  const quoted = JSON.stringify({ error: { message: reported, type: "broker_error" } })
  expect(describeBrokerError(reported, "anthropic/haiku")).toBe(expected)
  expect(describeBrokerError(`Bad Gateway: ${quoted}`, "anthropic/haiku")).toBe(expected)
  expect(describeBrokerError(reported, undefined)).toBe(expected.slice("anthropic/haiku: ".length))
})

test("errors of providers stay as they are", () => {
  for (const text of ["slow down", "Bad Gateway: {broken", 'x {"error":{"message":"no"}}', ""])
    expect(describeBrokerError(text, "a/b")).toBe(text)
})
