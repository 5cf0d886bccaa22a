/** Replaces text in a file of the workspace. Edits run one after another, so that none is lost. */
import { readAtMost, UntrustedFile } from "../../../lib/untrusted-files.ts"
import type { Files } from "./files.ts"
import { invalid, Problem } from "./problem.ts"

export interface EditRequest {
  readonly path: string
  readonly oldText: string
  readonly newText: string
  readonly replaceAll?: boolean | undefined
}

export interface EditResult {
  readonly path: string
  readonly replacements: number
  readonly bytesWritten: number
}

/** Far above source files, and small enough to hold in memory. */
const MAX_BYTES = 8 * 1024 * 1024

/** The new text and the number of replacements. Throws a Problem if `oldText` does not name one place. */
export const replaceText = (
  text: string,
  { path, oldText, newText, replaceAll = false }: EditRequest,
): { readonly text: string; readonly replacements: number } => {
  if (oldText === "") throw invalid("oldText is empty: give the text to replace")
  const pieces = text.split(oldText)
  const found = pieces.length - 1
  if (found === 0) throw new Problem(409, "conflict", `oldText does not occur in ${path}`)
  if (found > 1 && !replaceAll) {
    throw new Problem(
      409,
      "conflict",
      `oldText occurs ${found} times in ${path}: give more of the text around it, or replaceAll`,
    )
  }
  return { text: pieces.join(newText), replacements: found }
}

export const createEdit = (files: Files): ((request: EditRequest) => Promise<EditResult>) => {
  let last: Promise<unknown> = Promise.resolve()
  const edit = async (request: EditRequest): Promise<EditResult> => {
    const path = files.absolute(request.path)
    const { text, replacements } = replaceText(await readText(files, request.path), request)
    const bytes = Buffer.from(text)
    const draft = await files.draft(request.path)
    try {
      await draft.write(bytes)
      await draft.commit()
    } finally {
      await draft.discard()
    }
    return { path, replacements, bytesWritten: bytes.length }
  }
  return (request) => {
    const result = last.then(
      () => edit(request),
      () => edit(request),
    )
    last = result
    return result
  }
}

const readText = async (files: Files, path: string): Promise<string> => {
  const { file } = await files.openForReading(path)
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      await readAtMost(file, MAX_BYTES),
    )
  } catch (error) {
    if (error instanceof UntrustedFile) {
      throw new Problem(413, "invalid_request", `${files.absolute(path)}: ${error.message}`)
    }
    if (error instanceof TypeError) throw invalid(`${files.absolute(path)} is not UTF-8 text`)
    throw error
  } finally {
    await file.close()
  }
}
