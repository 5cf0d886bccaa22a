/** PDFs that take too much: they are given up, and the runner goes on meanwhile. */
import { expect, test } from "bun:test"
import { deflateSync } from "node:zlib"
import { systemClock } from "../../../src/lib/clock.ts"
import { createReadPdf, type PdfOptions } from "../../../src/runner/prompt/read-pdf.ts"
import { runnerFromSource } from "../../kit/runner.ts"

const reader = (limits: Partial<PdfOptions> = {}) =>
  createReadPdf({ self: runnerFromSource, owner: undefined, clock: systemClock, ...limits })

/** One page whose words, packed to almost nothing, are so many bytes long. */
const pdf = (bytes: number): Uint8Array => {
  const words = deflateSync(Buffer.alloc(bytes, "BT /F1 12 Tf (hello) Tj ET\n"))
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    `<< /Length ${words.length} /Filter /FlateDecode >>\nstream\n${words.toString("latin1")}\nendstream`,
  ]
  let text = "%PDF-1.4\n"
  const places = objects.map((object, index) => {
    const at = text.length
    text += `${index + 1} 0 obj\n${object}\nendobj\n`
    return `${String(at).padStart(10, "0")} 00000 n \n`
  })
  const table = `xref\n0 6\n0000000000 65535 f \n${places.join("")}`
  const end = `trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF`
  return Buffer.from(text + table + end, "latin1")
}

/** Why it failed, and how long nothing else was done meanwhile. */
const failing = async (reading: Promise<unknown>) => {
  let longest = 0
  let last = performance.now()
  const beat = setInterval(() => {
    longest = Math.max(longest, performance.now() - last)
    last = performance.now()
  }, 5)
  const why = await reading.then(
    () => "it did not fail",
    (error: Error) => error.message,
  )
  clearInterval(beat)
  return { why, longest }
}

test("the words of a page are read", async () => {
  expect(await reader()(pdf(26))).toEqual({ text: "[page 1]\nhello", pages: 1 })
})

test("one that takes too long is given up, and nothing waits for it meanwhile", async () => {
  const { why, longest } = await failing(reader({ limitMs: 1500 })(pdf(40_000_000)))
  expect(why).toBe("reading it took too long")
  expect(longest).toBeLessThan(1000)
})

test("one that unfolds to too much is given up", async () => {
  const { why } = await failing(reader({ memoryBytes: 200_000_000 })(pdf(40_000_000)))
  expect(why).toBe("it unfolds to more than can be read")
})

test("what is no PDF, and a program that is not there, are told in a sentence", async () => {
  const junk = new TextEncoder().encode("%PDF-1.4 and nothing more")
  expect((await failing(reader()(junk))).why).toBe("it could not be read as a PDF")
  const nowhere = reader({ self: ["/nowhere"] })
  expect((await failing(nowhere(junk))).why).toBe("it could not be read as a PDF")
})
