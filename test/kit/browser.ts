/** A real browser for tests: Debian's Chromium if it is installed, else the one inside an npm package. */
import { type Browser, chromium } from "playwright-core"
import { unpackBrowser } from "./packed-browser.ts"

/** `microphone`: a context may be given the permission to use it. */
export const launchBrowser = async ({ microphone = true } = {}): Promise<Browser> => {
  const installed = Bun.which("chromium")
  if (installed !== null)
    return chromium.launch({ executablePath: installed, args: ARGS, env: browserEnvironment() })
  const packed = await unpackBrowser()
  // Not the package's own flags: they turn off the walls between origins, which these tests are about.
  return chromium.launch({
    executablePath: packed.executablePath,
    env: { ...browserEnvironment(), ...packed.environment },
    args: [...ARGS, "--disable-gpu", "--no-zygote", ...(microphone ? [ALLOWS_MICROPHONE] : [])],
  })
}

/** The library of PulseAudio would leave a folder in the temporary directory: this path cannot be made. */
export const browserEnvironment = () => ({ ...process.env, PULSE_RUNTIME_PATH: "/dev/null/pulse" })

/** The packed browser cannot ask for a permission, so it refuses every one unless it is told to allow all of them. */
const ALLOWS_MICROPHONE = "--use-fake-ui-for-media-stream"

/**
 * Tests run as root, where Chromium refuses its own sandbox; names below `localhost` are this machine; a microphone that
 * beeps stands in for a real one.
 */
const ARGS = [
  "--no-sandbox",
  "--host-resolver-rules=MAP *.localhost 127.0.0.1",
  "--use-fake-device-for-media-stream",
]
