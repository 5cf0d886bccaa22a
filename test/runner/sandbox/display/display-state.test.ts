/** Which files of the display folder are sent: the decision, by properties. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  decide,
  type FoundFile,
  type Known,
  planFiles,
} from "../../../../src/runner/sandbox/display/display-state.ts"
import { displayLimits } from "../../../../src/wire/frames/display.ts"

interface File {
  readonly content: number
  readonly touched: number
  readonly bytes: number
  readonly isRegular: boolean
}
type Folder = Readonly<Record<string, File>>

const file: fc.Arbitrary<File> = fc.record({
  content: fc.nat({ max: 2 }),
  touched: fc.nat({ max: 1 }),
  bytes: fc.constantFrom(10, displayLimits.fileBytes, displayLimits.fileBytes + 1),
  isRegular: fc.boolean(),
})
const folder: fc.Arbitrary<Folder> = fc.dictionary(
  fc.constantFrom(...Array.from({ length: 30 }, (_, index) => `f${index}`)),
  file,
  { maxKeys: 30 },
)

const foundIn = (now: Folder): readonly FoundFile[] =>
  Object.entries(now).map(([path, { content, touched, bytes, isRegular }]) => ({
    path,
    bytes,
    stamp: `${content}:${touched}:${bytes}:${isRegular}`,
    isRegular,
  }))

const turn = (now: Folder, known: Known) => {
  const found = foundIn(now)
  const plan = planFiles(found, known)
  const read = plan.read.map(({ path, stamp }) => ({
    path,
    stamp,
    sha256: `${now[path]?.content}:${now[path]?.bytes}`,
    mime: "text/plain",
  }))
  return { plan, ...decide(found, read, known) }
}

describe("the files of the display folder", () => {
  test("an unchanged folder shows and reports nothing a second time", () => {
    fc.assert(
      fc.property(folder, (now) => {
        const first = turn(now, new Map())
        const second = turn(now, first.known)
        expect([...second.shown]).toEqual([])
        expect(second.plan).toEqual({ read: [], omitted: [] })
      }),
    )
  })

  test("a file is shown when its content changes, and not when it is only touched", () => {
    fc.assert(
      fc.property(folder, folder, (before, after) => {
        const first = turn(before, new Map())
        const second = turn(after, first.known)
        for (const path of second.shown) {
          const former = before[path]
          const isSame =
            former?.content === after[path]?.content && former?.bytes === after[path]?.bytes
          expect(isSame && first.shown.has(path)).toBe(false)
        }
      }),
    )
  })

  test("one turn stays within the limits, and every changed file is read or named with a reason", () => {
    fc.assert(
      fc.property(folder, (now) => {
        const { plan } = turn(now, new Map())
        expect(plan.read.length).toBeLessThanOrEqual(displayLimits.files)
        expect(plan.read.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(
          displayLimits.frameBytes,
        )
        expect(plan.read.every(({ isRegular }) => isRegular)).toBe(true)
        const named = plan.read.length + plan.omitted.length
        expect(named).toBe(
          Math.min(Object.keys(now).length, plan.read.length + displayLimits.files),
        )
      }),
    )
  })
})
