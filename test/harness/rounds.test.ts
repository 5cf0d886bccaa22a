import { expect, test } from "bun:test"
import { planRounds } from "./rounds.ts"

const MANY = Array.from({ length: 20 }, (_, index) => `test/${index}.test.ts`)

test("one seed always gives the same rounds, so that a run can go on with a later round", () => {
  const files = { together: MANY, alone: [] }
  const short = planRounds(files, { times: 5, load: 2, seed: 4711 })
  const long = planRounds(files, { times: 20, load: 2, seed: 4711 })
  expect(long.slice(0, 5)).toEqual([...short])
  expect(long.map(({ number }) => number)).toEqual(
    Array.from({ length: 20 }, (_, index) => index + 1),
  )
  expect(planRounds(files, { times: 5, load: 2, seed: 4712 })).not.toEqual(short)
})

test("every round of many files runs each file once, with 1 to 4 workers", () => {
  for (const round of planRounds({ together: MANY, alone: [] }, { times: 50, load: 0, seed: 1 })) {
    expect(round.files.toSorted()).toEqual(MANY.toSorted())
    expect(round.workers).toBeWithin(1, 5)
    expect(round.isLoaded).toBe(false)
  }
})

test("a single file runs in six copies with at least three workers, a file that runs alone does not", () => {
  const [round] = planRounds(
    { together: ["a.test.ts"], alone: ["b.test.ts"] },
    { times: 1, load: 2, seed: 1 },
  )
  expect(round?.files.toSorted()).toEqual([...Array(6).fill("a.test.ts"), "b.test.ts"])
  expect(round?.workers).toBeWithin(3, 7)
})
