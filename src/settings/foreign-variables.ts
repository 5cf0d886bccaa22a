/** Variables of the machine and of other programs, which this program passes on and does not read. The first row that fits counts. */
import type { Destination } from "./reaches.ts"

interface ForeignVariables {
  readonly names: RegExp
  readonly reaches: readonly Destination[]
}

const oneOf = (names: string): RegExp => new RegExp(`^(?:${names.trim().split(/\s+/).join("|")})$`)

export const foreignVariables: readonly ForeignVariables[] = [
  {
    // Paths, users and programs of this machine; another machine has its own.
    names: oneOf(`
      PATH HOME USER LOGNAME SHELL TERM TMPDIR
      SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO
      PLAYWRIGHT_BROWSERS_PATH AGENT_BROWSER_EXECUTABLE_PATH AGENT_BROWSER_ARGS`),
    reaches: ["agent", "child", "sandbox"],
  },
  {
    names: oneOf(`
      TZ LANG LANGUAGE LC_\\w+
      HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy`),
    reaches: ["agent", "child", "sandbox", "image"],
  },
  { names: /^GIT_(?:AUTHOR|COMMITTER)_/, reaches: ["agent", "child", "operator", "image"] },
  {
    // The display, and the image's browser: without its profile agent-browser searches for another one.
    names: oneOf("COLORTERM XAUTHORITY WAYLAND_DISPLAY AGENT_BROWSER_PROFILE"),
    reaches: ["agent"],
  },
  // Of this program and of the clouds that run its sandboxes.
  { names: /^(?:SANDPIPER|HUB|MODAL|E2B|DAYTONA)_/, reaches: [] },
  // Keys of model providers: OpenCode's key broker reads them under these names.
  {
    names:
      /^(?:[A-Z][A-Z0-9_]*_API_(?:KEY|TOKEN)|AWS_[A-Z0-9_]+|AZURE_[A-Z0-9_]+|GOOGLE_[A-Z0-9_]+|OPENAI_API_BASE)$/,
    reaches: ["child", "sandbox", "image"],
  },
]
