/** The page of `up`: its origins, its login links, and opening it in the browser. */
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { issueLoginCode } from "../hub/page-logins.ts"
import type { PageOrigins } from "../runner/gateway/hosts.ts"
import type { Settings } from "../settings/settings.ts"

/** Undefined if only one of the two origins is set: the sandbox must never share the page's origin. */
export const pageOriginsOf = (settings: Settings): PageOrigins | undefined => {
  const { given, pageOrigin, sandboxOrigin, publicUrl } = settings
  if (given.has("pageOrigin") !== given.has("sandboxOrigin")) return undefined
  if (pageOrigin === undefined || sandboxOrigin === undefined) return undefined
  return { page: pageOrigin, tunnels: sandboxOrigin, publicUrl }
}

/** The code is in the fragment, which browsers send to no server. */
export const newLoginLink = (stateDir: string, origin: string, now: number): string =>
  `${origin}/#login=${issueLoginCode(stateDir, now)}`

const OPENERS = ["xdg-open", "wslview", "sensible-browser"] as const

/** The program that opens a URL in the browser of this desktop; undefined where there is none. */
export const findBrowser = ({ environment }: Settings): string | undefined => {
  const { DISPLAY, WAYLAND_DISPLAY, WSL_DISTRO_NAME, PATH = "" } = environment
  // The first process of a container has the sandbox's screen, not the desktop of a person.
  if (process.pid === 1) return undefined
  if (!DISPLAY && !WAYLAND_DISPLAY && !WSL_DISTRO_NAME) return undefined
  return OPENERS.flatMap((name) => Bun.which(name, { PATH }) ?? [])[0]
}

/** How long the browser has to read the file that leads it to the page. */
const READ_MS = 60_000

/** Opens the link through a file that only its owner can read: other users can see the arguments of a program. */
export const openInBrowser = (
  settings: Settings,
  browser: string,
  link: string,
  after: (ms: number, run: () => void) => () => void,
): void => {
  const file = join(settings.stateDir, "hub", "open.html")
  const script = `location.replace(${JSON.stringify(link).replaceAll("<", "\\u003c")})`
  writeFileSync(file, `<!doctype html><title>Sandpiper</title><script>${script}</script>\n`, {
    mode: 0o600,
  })
  Bun.spawn([browser, `file://${file}`], {
    env: { ...settings.environment },
    stdio: ["ignore", "ignore", "ignore"],
    detached: true,
  }).unref()
  after(READ_MS, () => rmSync(file, { force: true }))
}
