/** The tar reader: archives of the real tar, cut anywhere, and archives that are broken or hostile. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as fc from "fast-check"
import { mayEnd, newTar, stepTar, TarError } from "../../../../src/runner/sandbox/v1/tar-state.ts"

let directory: string
const archives: Record<string, Buffer> = {}
const long = `${"d".repeat(90)}/${"e".repeat(90)}/${"f".repeat(120)}`

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tar-"))
  const source = join(directory, "source")
  await Bun.$`mkdir -p ${source}/sub ${source}/${long.slice(0, long.lastIndexOf("/"))}`
  await Bun.write(join(source, "empty"), "")
  await Bun.write(join(source, "sub/ünïcode"), "text")
  await Bun.write(join(source, "block"), "x".repeat(512))
  await Bun.write(join(source, long), "y".repeat(1500))
  for (const format of ["gnu", "pax", "ustar"]) {
    const file = join(directory, `${format}.tar`)
    const what = format === "ustar" ? ["empty", "sub", "block"] : ["."]
    await Bun.$`tar --format=${format} -cf ${file} -C ${source} ${what}`.quiet()
    archives[format] = Buffer.from(await Bun.file(file).arrayBuffer())
  }
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const read = (pieces: readonly Buffer[]): Map<string, string> => {
  const found = new Map<string, string>()
  let state = newTar()
  let path = ""
  for (const piece of pieces) {
    const [next, events] = stepTar(state, piece)
    state = next
    for (const event of events) {
      if (event.type === "entry") {
        path = `${event.kind} ${event.path}`
        found.set(path, "")
      }
      if (event.type === "data") found.set(path, `${found.get(path)}${event.bytes.toString()}`)
    }
  }
  expect(mayEnd(state)).toBe(true)
  return found
}

test("archives of the real tar in three formats are read with their long names and contents", () => {
  for (const format of ["gnu", "pax"]) {
    const found = read([archives[format] ?? Buffer.alloc(0)])
    expect(found.get(`file ./${long}`)).toBe("y".repeat(1500))
    expect(found.get("file ./sub/ünïcode")).toBe("text")
    expect(found.get("file ./block")).toHaveLength(512)
    expect(found.get("file ./empty")).toBe("")
    expect(found.has("directory ./sub/")).toBe(true)
  }
  expect(read([archives["ustar"] ?? Buffer.alloc(0)]).get("file block")).toHaveLength(512)
})

test("an archive gives the same entries wherever its bytes are cut", () => {
  for (const archive of Object.values(archives)) {
    const whole = read([archive])
    fc.assert(
      fc.property(fc.array(fc.nat(archive.length), { maxLength: 20 }), (cuts) => {
        const ends = [...cuts, archive.length].toSorted((a, b) => a - b)
        let from = 0
        const pieces = ends.map((end) => {
          const piece = archive.subarray(from, end)
          from = end
          return piece
        })
        expect(read(pieces)).toEqual(whole)
      }),
      { numRuns: 30 },
    )
  }
})

test("bytes that are not an archive are refused", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 512, maxLength: 2048 }), (bytes) => {
      fc.pre(bytes.some((byte) => byte !== 0))
      expect(() => stepTar(newTar(), Buffer.from(bytes))).toThrow(TarError)
    }),
  )
})

test("an archive that is cut in the middle of a file may not end there", () => {
  const archive = archives["gnu"] ?? Buffer.alloc(0)
  const [state] = stepTar(newTar(), archive.subarray(0, archive.indexOf("yyyy") + 100))
  expect(mayEnd(state)).toBe(false)
})
