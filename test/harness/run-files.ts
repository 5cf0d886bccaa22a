/** Runs test files side by side, in the given order. */
import { type FileOptions, type FileResult, runFile } from "./run-file.ts"

export const runFiles = async (
  files: readonly string[],
  workers: number,
  options: FileOptions,
  onResult: (result: FileResult) => void,
): Promise<readonly FileResult[]> => {
  const waiting = [...files]
  const results: FileResult[] = []
  const work = async (): Promise<void> => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const result = await runFile(file, options)
      results.push(result)
      onResult(result)
    }
  }
  await Promise.all(Array.from({ length: workers }, work))
  return results
}
