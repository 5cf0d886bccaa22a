/** The services of the sandbox: every command line stands here, once, whoever starts or restarts it. */

/** What a person may ask for; the screen is four programs. */
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
}

export interface Service {
  readonly name: string
  readonly group: ServiceGroup
  readonly command: readonly [string, ...string[]]
  /** Starts when this one answers; ends with it by itself. */
  readonly needs?: string
  /** When it counts as ready; without one, as soon as it runs. */
  readonly answersOn?: { readonly port: number } | { readonly socket: string }
  /** The rest of its group is of use without it. */
  readonly optional?: true
  /** What an earlier life of it may have left behind. */
  readonly locks?: "display" | "code-server"
}

export const displayNumber = (display: string): string => /:(\d+)/.exec(display)?.[1] ?? "0"

const words = (line: string): readonly string[] => line.split(" ")

/** All of them listen on loopback only: the gateway is the one door, and it asks who is there. */
export const servicesOf = ({ display, workDir, ports }: ServicePlace): readonly Service[] => [
  {
    name: "xvfb",
    group: "vnc",
    command: ["Xvfb", display, ...words("-screen 0 1920x1080x24 -nolisten tcp -noreset")],
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
      ...words(`-rfbport ${ports.rawVnc} -localhost -noipv6 -forever -shared`),
      ...words("-nopw -quiet -noxrecord"),
    ],
    needs: "xvfb",
    answersOn: { port: ports.rawVnc },
  },
  {
    name: "websockify",
    group: "vnc",
    command: [
      "websockify",
      ...words(`--web /usr/share/novnc 127.0.0.1:${ports.vnc} 127.0.0.1:${ports.rawVnc}`),
    ],
    answersOn: { port: ports.vnc },
  },
  {
    name: "code-server",
    group: "vscode",
    command: [
      "code-server",
      ...words(`--bind-addr 127.0.0.1:${ports.vscode} --auth none --disable-telemetry`),
      ...words("--disable-update-check --disable-workspace-trust"),
      workDir,
    ],
    answersOn: { port: ports.vscode },
    locks: "code-server",
  },
  {
    name: "ttyd",
    group: "ttyd",
    command: [
      "ttyd",
      ...words(`-W -i 127.0.0.1 -p ${ports.ttyd} bash -c`),
      // A shell is started for each visitor: by then the directory may be there.
      'cd "$1" 2>/dev/null || cd; exec bash -l',
      "bash",
      workDir,
    ],
    answersOn: { port: ports.ttyd },
  },
]
