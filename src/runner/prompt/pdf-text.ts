/** Extracts the text of a PDF page by page. Runs only in a separate process: see read-pdf.ts. */
import { extractText, getDocumentProxy } from "unpdf"

export interface PdfText {
  readonly text: string
  readonly pages: number
}

/** More than any model can read; the PDF itself is saved too. */
const MAX_CHARACTERS = 4 * 1024 * 1024

export const textOfPdf = async (bytes: Uint8Array<ArrayBuffer>): Promise<PdfText> => {
  const document = await getDocumentProxy(bytes, { verbosity: 0 })
  const { text, totalPages } = await extractText(document, { mergePages: false })
  const numbered = text.map((page, index) => `[page ${index + 1}]\n${page.trim()}`)
  const hasText = text.some((page) => page.trim() !== "")
  return {
    text: hasText ? numbered.join("\n\n").slice(0, MAX_CHARACTERS) : "",
    pages: totalPages,
  }
}
