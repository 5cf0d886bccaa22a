/**
 * The address of a sandbox on this machine, under a name below the page's own. Browsers send a sandbox's cookie from a frame only
 * if both have the same site, and `127.0.0.1` is another site than `sandpiper.localhost`. Each session has a name of its own:
 * cookies of one name are sent to all ports.
 */
const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"])
/** A name has 63 characters at most, and a tunnel's own name stands before it. */
const LABEL_BYTES = 10

export const besidePage = async (
  address: string,
  session: string,
  page: { readonly hostname: string },
): Promise<string> => {
  const url = new URL(address)
  if (!page.hostname.endsWith(".localhost") || !LOOPBACK.has(url.hostname)) return address
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(session))
  const label = [...new Uint8Array(digest, 0, LABEL_BYTES)]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("")
  url.hostname = `box-${label}.${page.hostname}`
  return url.href
}
