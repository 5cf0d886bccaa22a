/** The built files of the page; undefined where this program was started from source and the page is not built. */
import type { PageFiles } from "../lib/page/asset-response.ts"

export const loadBuiltPage = async (): Promise<PageFiles | undefined> => {
  try {
    const { loadPageFiles } = await import("../hub/page-files.ts")
    return await loadPageFiles()
  } catch {
    return undefined
  }
}
