/** The port that OpenCode is to listen on: free, or held by someone who is named. */
import { createServer } from "node:net"
import { LaunchError } from "./launch-error.ts"
import type { Processes } from "./interfaces.ts"

/** A stranger on the port is named and left alone: whoever it is, it is not ours to end. */
export const choosePort = async (url: URL, processes: Processes): Promise<number> => {
  const wanted = Number(url.port || 80)
  const got = await tryPort(wanted, url.hostname)
  if (got !== undefined) return got
  const holder = processes.listener(wanted)
  const who = holder
    ? `pid ${holder.pid} (${holder.command})`
    : "a process that cannot be seen from here"
  throw new LaunchError(
    "blocked",
    `port ${wanted}, where OpenCode is to listen, is taken by ${who}; it is left alone and tried again`,
  )
}

const tryPort = (port: number, hostname: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", (error: NodeJS.ErrnoException) =>
      error.code === "EADDRINUSE" ? resolve(undefined) : reject(error),
    )
    server.listen(port, hostname.replace(/^\[|\]$/g, ""), () => {
      const address = server.address()
      const got = typeof address === "object" && address ? address.port : port
      server.close(() => resolve(got))
    })
  })
