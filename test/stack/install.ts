/** Installs missing requirements of the stack tests: Debian packages with apt, the rest from npm into a cache. */
import { existsSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { cacheDirectory, codeServer, node24, npmDirectory, wrangler } from "./places.ts"

/** Required programs and the Debian package of each. */
const programs: Readonly<Record<string, string>> = {
  Xvfb: "xvfb",
  x11vnc: "x11vnc",
  websockify: "websockify",
  xsetroot: "x11-xserver-utils",
  chromium: "chromium",
  ffmpeg: "ffmpeg",
  pgrep: "procps",
  "g++": "g++",
  make: "make",
  python3: "python3",
  "pkg-config": "pkg-config",
  bwrap: "bubblewrap",
  pasta: "passt",
  "fuse-overlayfs": "fuse-overlayfs",
  "swift-proxy-server": "swift-proxy",
  "swift-account-server": "swift-account",
  "swift-container-server": "swift-container",
  "swift-object-server": "swift-object",
  podman: "podman",
  runc: "runc",
  iptables: "iptables",
  "redis-server": "redis-server",
  pgbouncer: "pgbouncer",
}
/** Packages without a program, detected by a file they contain. */
const files: Readonly<Record<string, string>> = {
  "/usr/share/novnc/vnc.html": "novnc",
  "/usr/lib/podman/netavark": "netavark",
  "/usr/include/X11/extensions/XKBfile.h": "libxkbfile-dev",
  "/usr/include/krb5.h": "libkrb5-dev",
  "/usr/include/libsecret-1/libsecret/secret.h": "libsecret-1-dev",
}

const print = (line: string) => process.stdout.write(`${line}\n`)

const run = async (command: readonly string[], environment: Record<string, string> = {}) => {
  print(`$ ${command.join(" ")}`)
  const child = Bun.spawn([...command], {
    stdout: "ignore",
    stderr: "pipe",
    env: { ...withoutNpmVariables(), DEBIAN_FRONTEND: "noninteractive", ...environment },
  })
  const errors = await new Response(child.stderr).text()
  if ((await child.exited) !== 0) {
    throw new Error(`${command.slice(0, 2).join(" ")} failed: ${errors.trim().slice(-2000)}`)
  }
}

/**
 * The environment without the variables of the npm that started this program. Packages with native code read them to
 * choose the Node they are built for, which must be the Node of the npm that installs them.
 */
const withoutNpmVariables = () =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^(NODE|npm_(config_user_agent|execpath|node_execpath|(lifecycle|package)_.*))$/.test(
          name,
        ),
    ),
  )

const missingPackages = () => [
  ...Object.entries(programs).flatMap(([program, name]) => (Bun.which(program) ? [] : [name])),
  ...Object.entries(files).flatMap(([file, name]) => (existsSync(file) ? [] : [name])),
]

const installPackages = async () => {
  const missing = missingPackages()
  if (missing.length === 0) return
  if (!Bun.which("apt-get") || process.getuid?.() !== 0) {
    throw new Error(
      `the stack tests need ${missing.join(", ")}: install them, or run this as root on Debian to install them automatically`,
    )
  }
  await run(["apt-get", "update", "-qq"])
  // Reinstalls a package whose program was removed by hand: apt still counts that package as installed.
  await run([
    "apt-get",
    "install",
    "-y",
    "-qq",
    "--reinstall",
    "--no-install-recommends",
    ...missing,
  ])
  const absent = missingPackages()
  if (absent.length > 0) {
    throw new Error(
      `${absent.join(", ")} installed, but the programs or files of these packages are not there: check PATH (${process.env["PATH"]})`,
    )
  }
}

/** One directory per package: code-server is built with the headers of a Node that must be installed before it. */
const installFromNpm = async (directory: string, packages: readonly string[], environment = {}) => {
  const mark = join(directory, "installed.txt")
  const wanted = packages.join(" ")
  if (existsSync(mark) && (await Bun.file(mark).text()) === wanted) return
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, "package.json"), '{"private":true}\n')
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", directory]
  await run(["npm", "install", ...quiet, ...packages], environment)
  await writeFile(mark, wanted)
}

const main = async () => {
  print(`requirements of the stack tests are cached in ${cacheDirectory}`)
  await installPackages()
  await installFromNpm(npmDirectory, ["playwright-core@1.65.0", "vite@8.3.8"])
  await installFromNpm(node24.directory, ["node@24"])
  await installFromNpm(wrangler.directory, ["wrangler@4.160.0"])
  await installFromNpm(codeServer.directory, ["code-server@4.139.1"], {
    PATH: `${join(node24.home, "bin")}:${process.env["PATH"]}`,
    npm_config_nodedir: node24.home,
  })
}

try {
  await main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
