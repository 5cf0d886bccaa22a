/** The services behind the gateway: their titles, ports and prefixes. */

export interface Backend {
  readonly title: string
  /** The port it listens on; `undefined` when it does not run. */
  readonly port: number | undefined
  /** Its path in the gateway; empty when it has its own host. */
  readonly prefix: string
  /** The only Origin whose WebSockets it accepts. Pages in the sandbox's own browser have another one. */
  readonly socketOrigin?: string
}

export interface BackendPorts {
  readonly vscode: number
  readonly vnc: number
  readonly ttyd: number
}

export type BackendName = keyof BackendPorts

const titles: Readonly<Record<BackendName, string>> = {
  vscode: "VS Code",
  vnc: "the screen",
  ttyd: "the terminal",
}

export const backendOf = (name: BackendName, ports: BackendPorts): Backend => ({
  title: titles[name],
  port: ports[name],
  prefix: `/${name}`,
  // code-server compares the Origin with the host that the client has used, so it gets the client's.
  ...(name !== "vscode" && { socketOrigin: `http://localhost:${ports[name]}` }),
})

/** Where a VNC server listens by default. It has no password and must be reached only through its web page. */
const RAW_VNC_PORT = 5900

/** Ports that no tunnel may use, with their owner. */
export const reservedPorts = (
  ports: BackendPorts,
  gatewayPort: number | undefined,
  opencodePorts: readonly (number | undefined)[],
  others: ReadonlyMap<number, string>,
): Map<number, string> => {
  const reserved = new Map<number, string>([[RAW_VNC_PORT, "the VNC server"], ...others])
  for (const [name, port] of Object.entries(ports)) {
    reserved.set(port, titles[name as BackendName])
  }
  if (gatewayPort !== undefined) reserved.set(gatewayPort, "the gateway")
  for (const port of opencodePorts) if (port !== undefined) reserved.set(port, "OpenCode")
  return reserved
}
