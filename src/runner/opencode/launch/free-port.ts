/** Checks that the port for OpenCode is free before OpenCode is started. */
import { createServer } from "node:net"
import { freePort } from "../../../lib/free-port.ts"
import { LaunchError } from "./launch-error.ts"
import type { Processes } from "./interfaces.ts"

export interface PortChoice {
  readonly url: URL
  /** The port was not chosen by a person: if it is taken, any other serves as well. */
  readonly isDefault: boolean
  readonly onTaken: (fact: { readonly port: number; readonly by: string }) => void
}

/** Port 0 picks a free one. A process that holds a chosen port is named in the error and is not ended: it is not ours. */
export const choosePort = async (
  { url, isDefault, onTaken }: PortChoice,
  processes: Pick<Processes, "listener">,
): Promise<number> => {
  const port = Number(url.port || 80)
  const hostname = url.hostname.replace(/^\[|\]$/g, "")
  if (port === 0) return freePort(hostname)
  if (await isFree(port, hostname)) return port
  const holder = processes.listener(port)
  const owner = holder
    ? `pid ${holder.pid} (${holder.command})`
    : "a process that is not visible to the runner"
  if (isDefault) {
    onTaken({ port, by: owner })
    return freePort(hostname)
  }
  throw new LaunchError(
    "blocked",
    `port ${port} for OpenCode is in use by ${owner}; stop that process or set OPENCODE_URL. OpenCode's start is retried`,
  )
}

const isFree = (port: number, hostname: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", (error: NodeJS.ErrnoException) =>
      error.code === "EADDRINUSE" ? resolve(false) : reject(error),
    )
    server.listen(port, hostname, () => server.close(() => resolve(true)))
  })
