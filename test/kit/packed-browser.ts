/**
 * The Chromium inside an npm package, unpacked once for all test files. The package itself unpacks into the temporary folder of each
 * file, and its font configuration names `/tmp/fonts` only: without a font there, the browser ends with the first missing glyph.
 */
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import packages from "../package.json"

const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache")
const version = packages.dependencies["@sparticuz/chromium"]

export interface PackedBrowser {
  readonly executablePath: string
  readonly environment: Readonly<Record<string, string>>
}

/** `folder`: where it is unpacked; the next call finds it there. */
export const unpackBrowser = async (
  folder = join(cache, `sandpiper-test/chromium-${version}`),
): Promise<PackedBrowser> => {
  if (!existsSync(folder)) await unpackTo(folder)
  return {
    executablePath: join(folder, "chromium"),
    environment: {
      FONTCONFIG_FILE: join(folder, "fonts.conf"),
      LD_LIBRARY_PATH: join(folder, "al2023", "lib"),
    },
  }
}

/** Two files may unpack at the same time: each has a draft of its own, and the first one that is whole stays. */
const unpackTo = async (folder: string): Promise<void> => {
  await mkdir(dirname(folder), { recursive: true })
  const draft = await mkdtemp(`${folder}-draft-`)
  // The package writes into the temporary folder of its process.
  const child = Bun.spawn([process.execPath, "-e", UNPACK], {
    cwd: import.meta.dir,
    env: { ...process.env, TMPDIR: draft, AWS_LAMBDA_JS_RUNTIME: "nodejs22.x" },
    stdio: ["ignore", "ignore", "inherit"],
  })
  if ((await child.exited) !== 0) throw new Error("The packed Chromium could not be unpacked.")
  await writeFile(join(draft, "fonts.conf"), fontConfiguration(folder))
  try {
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
}

const UNPACK = `await (await import("@sparticuz/chromium")).default.executablePath()`

const fontConfiguration = (folder: string): string => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${join(folder, "fonts")}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${join(folder, "fonts-cache")}</cachedir>
</fontconfig>
`
