/** The text of a PDF, page by page. Only ever in a process of its own: see documents.ts. */
import { extractText, getDocumentProxy } from "unpdf"

export interface PdfText {
  readonly text: string
  readonly pages: number
}

/** More than any model reads; the file itself is kept beside it. */
const MOST_CHARACTERS = 4 * 1024 * 1024

export const textOfPdf = async (bytes: Uint8Array<ArrayBuffer>): Promise<PdfText> => {
  const document = await getDocumentProxy(bytes, { verbosity: 0 })
  const { text, totalPages } = await extractText(document, { mergePages: false })
  const numbered = text.map((page, index) => `[page ${index + 1}]\n${page.trim()}`)
  const hasWords = text.some((page) => page.trim() !== "")
  return {
    text: hasWords ? numbered.join("\n\n").slice(0, MOST_CHARACTERS) : "",
    pages: totalPages,
  }
}
