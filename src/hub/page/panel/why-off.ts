/** Why a panel's program does not run, and the command that helps. Pure. */
import { words } from "../words.ts"

/** Debian's packages; code-server is in npm's registry only. */
const PACKAGES: Readonly<Record<string, string>> = {
  Xvfb: "xvfb",
  x11vnc: "x11vnc",
  websockify: "websockify novnc",
}

/** `lacks`: the programs that the runner looked for and did not find. */
export const whyOff = (
  service: string,
  programs: readonly string[],
  lacks: unknown,
): { readonly text: string; readonly command?: string } => {
  if (programs.length === 0) return { text: words.notServed }
  const missing = Array.isArray(lacks) ? programs.filter((name) => lacks.includes(name)) : []
  if (missing.length === 0)
    return {
      text: words.turnedOff(programs),
      command: `SANDPIPER_SERVICES=${service}`,
    }
  const packages = missing.flatMap((name) => PACKAGES[name] ?? [])
  return {
    text: words.lacks(missing),
    command:
      packages.length === 0
        ? `npm install --global ${missing.join(" ")}`
        : `apt-get install ${packages.join(" ")}`,
  }
}
