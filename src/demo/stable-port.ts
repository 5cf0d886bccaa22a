/**
 * Starts a server on the same port as last time, if that port is free. An OpenCode that outlived its runner then still
 * reaches the model, and its configuration does not change.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname } from "node:path"
import { freePort } from "../lib/free-port.ts"

export const startOnStablePort = async <Server extends { readonly port: number }>(
  file: string,
  start: (port: number) => Promise<Server>,
): Promise<Server> => {
  const lastPort = await readPort(file)
  const server = (lastPort > 0 && (await tryStart(start, lastPort))) || (await start(freePort()))
  if (server.port !== lastPort) {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await writeFile(file, `${server.port}\n`, { mode: 0o600 })
  }
  return server
}

const readPort = async (file: string): Promise<number> => {
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
