/** The security headers of the page and of the terminal document. Pure. */

const POLICY = {
  "default-src": "'none'",
  "script-src": "'self'",
  "style-src": "'self'",
  "img-src": "'self' blob: data:",
  "connect-src": "'self'",
  "font-src": "'none'",
  "media-src": "blob:",
  "frame-src": "'none'",
  "manifest-src": "'self'",
  "base-uri": "'none'",
  "form-action": "'none'",
  "frame-ancestors": "'none'",
  "require-trusted-types-for": "'script'",
  "trusted-types": "dompurify",
} as const

const policyText = (changes: Partial<Record<keyof typeof POLICY, string>>): string =>
  Object.entries({ ...POLICY, ...changes })
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name} ${value}`)
    .join("; ")

const COMMON = {
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
} as const

/** `frames` are the origins of the sandbox. */
export const pageHeaders = (frames: readonly string[]): Readonly<Record<string, string>> => ({
  ...COMMON,
  "content-security-policy": policyText({ "frame-src": frames.join(" ") }),
  "cross-origin-opener-policy": "same-origin",
  // Pages of tunnels may be of the same site, whose pages a browser may put into one process.
  "origin-agent-cluster": "?1",
  "permissions-policy": "microphone=(self), camera=(), geolocation=()",
})

/**
 * The terminal is a document of the sandbox's host: xterm needs inline styles, which the page forbids. `framedBy` are the
 * origins that may show it; without any, only a tab of its own can.
 */
export const terminalHeaders = (framedBy: readonly string[]): Readonly<Record<string, string>> => ({
  "referrer-policy": "no-referrer",
  "content-security-policy": policyText({
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "media-src": "'none'",
    "manifest-src": "'none'",
    "frame-ancestors": framedBy.length === 0 ? "'none'" : framedBy.join(" "),
    "trusted-types": "'none'",
  }),
})

/** For files that are not documents. */
export const assetHeaders: Readonly<Record<string, string>> = {
  ...COMMON,
  "content-security-policy": "default-src 'none'; sandbox",
}
