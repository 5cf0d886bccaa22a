/** The output of running tools: what is new of a text of which OpenCode keeps only the end. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { growth } from "../../../src/runner/turn/tool-output.ts"

/** As OpenCode reports the output of a command: its end, after three dots when the start is cut. */
const report = (output: string, limit: number): string =>
  output.length <= limit ? output : `...\n\n${output.slice(-limit)}`

test("the pieces of a growing output make the whole output, also when OpenCode cuts its start", () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 300 }), { minLength: 1, maxLength: 40 }), (sizes) => {
      let [output, before, received, line] = ["", "", "", 0]
      for (const size of sizes) {
        for (let index = 0; index < size; index += 8)
          output += `${String(line++).padStart(7, "0")}\n`
        const after = report(output, 2000)
        received += growth(before, after)
        before = after
      }
      expect(received).toBe(output)
    }),
  )
})

test("an output whose old end is gone is sent with what is left of it", () => {
  expect(growth("old text", "...\n\nnew text")).toBe("new text")
})
