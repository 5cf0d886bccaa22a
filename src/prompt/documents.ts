/** Reads the text out of a PDF. */
import { extractText, getDocumentProxy } from "unpdf"
import { AttachmentError } from "./fetch-file.ts"

const LIMIT_MS = 30_000

export const readPdf = async (bytes: Uint8Array): Promise<{ text: string; pages: number }> => {
  const limit = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => limit.reject(new AttachmentError("reading it took too long")),
    LIMIT_MS,
  )
  try {
    return await Promise.race([read(bytes), limit.promise])
  } catch (error) {
    if (error instanceof AttachmentError) throw error
    throw new AttachmentError("it could not be read as a PDF", { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

const read = async (bytes: Uint8Array): Promise<{ text: string; pages: number }> => {
  // The reader takes its input for itself: what is saved beside it must be another copy.
  const document = await getDocumentProxy(bytes.slice(), { verbosity: 0 })
  try {
    const { text, totalPages } = await extractText(document, { mergePages: false })
    const numbered = text.map((page, index) => `[page ${index + 1}]\n${page.trim()}`)
    const hasWords = text.some((page) => page.trim() !== "")
    return { text: hasWords ? numbered.join("\n\n") : "", pages: totalPages }
  } finally {
    await document.cleanup()
  }
}
