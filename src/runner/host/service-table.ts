/** The services of the sandbox with their command lines. */

import type { ServiceSockets } from "./service-sockets.ts"

/** What SANDPIPER_SERVICES names; `vnc` consists of four programs. */
export type ServiceGroup = "vnc" | "vscode" | "ttyd"

export interface ServicePlace {
  /** An X display, such as `:99`. */
  readonly display: string
  readonly workDir: string
  readonly ports: {
    readonly vscode: number
    readonly vnc: number
    readonly rawVnc: number
    readonly ttyd: number
  }
  /** Where code-server and ttyd listen; on their ports if absent. */
  readonly sockets?: ServiceSockets | undefined
}

export interface Service {
  readonly name: string
  readonly group: ServiceGroup
  readonly command: readonly [string, ...string[]]
  /** Starts after this service is ready; exits by itself when that service ends. */
  readonly needs?: string
  /** Ready when the program listens here; if absent, as soon as it runs. */
  readonly answersOn?: { readonly port: number } | { readonly socket: string }
  /** The rest of its group works without it. */
  readonly optional?: true
  /** Lock files that a killed process of it may have left. */
  readonly locks?: "display" | "code-server"
}

export const displayNumber = (display: string): string => /:(\d+)/.exec(display)?.[1] ?? "0"

const splitWords = (line: string): readonly string[] => line.split(" ")

/** All listen on loopback only: people reach them through the gateway, which authenticates. */
export const servicesOf = ({
  display,
  workDir,
  ports,
  sockets,
}: ServicePlace): readonly Service[] => [
  {
    name: "xvfb",
    group: "vnc",
    command: ["Xvfb", display, ...splitWords("-screen 0 1920x1080x24 -nolisten tcp -noreset")],
    answersOn: { socket: `/tmp/.X11-unix/X${displayNumber(display)}` },
    locks: "display",
  },
  {
    name: "fluxbox",
    group: "vnc",
    command: ["fluxbox", "-display", display],
    needs: "xvfb",
    optional: true,
  },
  {
    name: "x11vnc",
    group: "vnc",
    command: [
      "x11vnc",
      "-display",
      display,
      ...splitWords(`-rfbport ${ports.rawVnc} -localhost -noipv6 -forever -shared`),
      ...splitWords("-nopw -quiet -noxrecord"),
    ],
    needs: "xvfb",
    answersOn: { port: ports.rawVnc },
  },
  {
    name: "websockify",
    group: "vnc",
    command: [
      "websockify",
      // Only the gateway sends this Origin: a page in the sandbox's own browser cannot connect.
      ...splitWords(`--auth-plugin ExpectOrigin --auth-source http://localhost:${ports.vnc}`),
      ...splitWords(`--web /usr/share/novnc 127.0.0.1:${ports.vnc} 127.0.0.1:${ports.rawVnc}`),
    ],
    answersOn: { port: ports.vnc },
  },
  {
    name: "code-server",
    group: "vscode",
    command: [
      "code-server",
      ...(sockets
        ? ["--socket", sockets.vscode, "--socket-mode", "600"]
        : ["--bind-addr", `127.0.0.1:${ports.vscode}`]),
      ...splitWords("--auth none --disable-telemetry"),
      ...splitWords("--disable-update-check --disable-workspace-trust"),
      workDir,
    ],
    answersOn: sockets ? { socket: sockets.vscode } : { port: ports.vscode },
    locks: "code-server",
  },
  {
    name: "ttyd",
    group: "ttyd",
    command: [
      "ttyd",
      // -O: the Origin of a WebSocket must be the host of its request, which the gateway sends.
      ...splitWords("-W -O"),
      ...(sockets ? ["-i", sockets.ttyd] : splitWords(`-i 127.0.0.1 -p ${ports.ttyd}`)),
      ...splitWords("bash -c"),
      // Each visitor gets a new shell; the directory may exist only by then.
      'cd "$1" 2>/dev/null || cd; exec bash -l',
      "bash",
      workDir,
    ],
    answersOn: sockets ? { socket: sockets.ttyd } : { port: ports.ttyd },
  },
]
