/**
 * Loaded before a program (`bun --preload`) that calls a server which does not listen yet: the first failed call creates the file
 * REFUSED_FILE, so that a test starts the server after it.
 */
import { writeFileSync } from "node:fs"

const { fetch: call } = globalThis
const reporting = async (...args: Parameters<typeof fetch>): Promise<Response> => {
  try {
    return await call(...args)
  } catch (error) {
    writeFileSync(process.env["REFUSED_FILE"] ?? "", "")
    throw error
  }
}
globalThis.fetch = Object.assign(reporting, call)
