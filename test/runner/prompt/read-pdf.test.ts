/** PDFs, and the limits on time and memory for reading them. */
import { expect, test } from "bun:test"
import { deflateSync } from "node:zlib"
import { systemClock } from "../../../src/lib/clock.ts"
import { createReadPdf, type PdfOptions } from "../../../src/runner/prompt/read-pdf.ts"
import { runnerFromSource } from "../../kit/runner.ts"

const reader = (limits: Partial<PdfOptions> = {}) =>
  createReadPdf({ self: runnerFromSource, owner: undefined, clock: systemClock, ...limits })

/** A PDF with one page whose compressed content is `bytes` long when unpacked. */
const pdf = (bytes: number): Uint8Array => {
  const content = deflateSync(Buffer.alloc(bytes, "BT /F1 12 Tf (hello) Tj ET\n"))
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    `<< /Length ${content.length} /Filter /FlateDecode >>\nstream\n${content.toString("latin1")}\nendstream`,
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

/** The error message, and how often a timer of the event loop ran meanwhile. */
const failing = async (reading: Promise<unknown>) => {
  let beats = 0
  const beat = setInterval(() => {
    beats += 1
  }, 5)
  const why = await reading.then(
    () => "it did not fail",
    (error: Error) => error.message,
  )
  clearInterval(beat)
  return { why, beats }
}

test("the text of a page is read", async () => {
  expect(await reader()(pdf(26))).toEqual({ text: "[page 1]\nhello", pages: 1 })
})

test("a PDF that takes too long fails without blocking the event loop", async () => {
  const { why, beats } = await failing(reader({ limitMs: 1500 })(pdf(40_000_000)))
  expect(why).toBe("reading it took too long")
  // A blocked event loop runs it once or twice.
  expect(beats).toBeGreaterThan(10)
})

test("a PDF that needs too much memory fails", async () => {
  const { why } = await failing(reader({ memoryBytes: 200_000_000 })(pdf(40_000_000)))
  expect(why).toBe("reading it needs too much memory")
})

test("a file that is not a PDF and a missing program give the same clear error", async () => {
  const junk = new TextEncoder().encode("%PDF-1.4 and nothing more")
  expect((await failing(reader()(junk))).why).toBe("it could not be read as a PDF")
  const nowhere = reader({ self: ["/nowhere"] })
  expect((await failing(nowhere(junk))).why).toBe("it could not be read as a PDF")
})
