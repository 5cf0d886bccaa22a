/**
 * A port that stays the same from start to start, as long as nobody else has taken it meanwhile: an OpenCode that outlived
 * its runner finds the model where it was, and its configuration is still the one that is wanted.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname } from "node:path"

export const startOnStablePort = async <Server extends { readonly port: number }>(
  file: string,
  start: (port: number) => Promise<Server>,
): Promise<Server> => {
  const kept = await readKept(file)
  const server = (await tryStart(start, kept)) ?? (await start(0))
  if (server.port !== kept) {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await writeFile(file, `${server.port}\n`, { mode: 0o600 })
  }
  return server
}

const readKept = async (file: string): Promise<number> => {
  const port = Number(await readFile(file, "utf8").catch(() => "0"))
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : 0
}

const tryStart = async <Server>(
  start: (port: number) => Promise<Server>,
  port: number,
): Promise<Server | undefined> => {
  try {
    return await start(port)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined
    throw error
  }
}
