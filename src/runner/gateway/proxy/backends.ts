/** The services behind the gateway, by route: what they are called and where they listen. */

export interface Backend {
  readonly title: string
  /** Where it listens now; nothing when it is not running. */
  readonly port: number | undefined
  /** The part of the path that names it; empty when it has a host of its own. */
  readonly prefix: string
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
})

/** The VNC server itself, which asks for no password: it is reached through its web page only. */
const RAW_VNC_PORT = 5900

/** Ports that no tunnel may lead to, and whose they are. */
export const reservedPorts = (
  ports: BackendPorts,
  gatewayPort: number | undefined,
  opencodePorts: readonly (number | undefined)[],
): ReadonlyMap<number, string> => {
  const reserved = new Map<number, string>([[RAW_VNC_PORT, "the VNC server"]])
  for (const [name, port] of Object.entries(ports)) {
    reserved.set(port, titles[name as BackendName])
  }
  if (gatewayPort !== undefined) reserved.set(gatewayPort, "the gateway")
  for (const port of opencodePorts) if (port !== undefined) reserved.set(port, "OpenCode")
  return reserved
}
