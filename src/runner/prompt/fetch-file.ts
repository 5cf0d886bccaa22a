/** Reads an attachment's bytes from the web or from a data URL, with a limit on size and time. */
import { isIP } from "node:net"
import { isWebUrl } from "../../lib/web-url.ts"
import { outsideAddress } from "../../lib/outside-address.ts"

export class AttachmentError extends Error {
  override readonly name = "AttachmentError"
}

const FETCH_MS = 30_000
const MOST_REDIRECTS = 5

/** False for servers of the sandbox itself; else the address to connect to, or true to look the name up again. */
export type MayFetch = (url: URL) => Permission | Promise<Permission>
type Permission = boolean | { readonly address: string }

export const fetchFile = async (
  url: string,
  maxBytes: number,
  signal: AbortSignal,
  mayFetch: MayFetch = outsideAddress,
): Promise<Uint8Array<ArrayBuffer>> =>
  url.slice(0, 5).toLowerCase() === "data:"
    ? readDataUrl(url, maxBytes)
    : download(url, maxBytes, AbortSignal.any([signal, AbortSignal.timeout(FETCH_MS)]), mayFetch)

const tooLarge = (maxBytes: number): AttachmentError =>
  new AttachmentError(`it is larger than the ${formatSize(maxBytes)} that are left for attachments`)

const formatSize = (bytes: number): string =>
  bytes < 1024 * 1024 ? `${Math.floor(bytes / 1024)} KB` : `${Math.floor(bytes / 1024 / 1024)} MB`

const readDataUrl = (url: string, maxBytes: number): Uint8Array<ArrayBuffer> => {
  const comma = url.indexOf(",")
  if (comma === -1) throw new AttachmentError("its data: URL has no data")
  const data = url.slice(comma + 1)
  const isBase64 = /;base64$/i.test(url.slice(5, comma))
  // Checked before decoding, to avoid the memory for the decoded copy.
  if (data.length * (isBase64 ? 0.75 : 1) > maxBytes + 2) throw tooLarge(maxBytes)
  const bytes = isBase64 ? fromBase64(data) : new TextEncoder().encode(decodeText(data))
  if (bytes.length > maxBytes) throw tooLarge(maxBytes)
  return bytes
}

const fromBase64 = (data: string): Uint8Array<ArrayBuffer> => {
  const text = (data.includes("%") ? decodeText(data) : data).replaceAll(/\s+/g, "")
  // No two parts of the expression match the same character, so that a long text takes linear time.
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) {
    throw new AttachmentError("its data: URL is not base64")
  }
  return new Uint8Array(Buffer.from(text, "base64"))
}

const decodeText = (data: string): string => {
  try {
    return decodeURIComponent(data)
  } catch {
    throw new AttachmentError("its data: URL is malformed")
  }
}

const download = async (
  url: string,
  maxBytes: number,
  signal: AbortSignal,
  mayFetch: MayFetch,
): Promise<Uint8Array<ArrayBuffer>> => {
  try {
    const response = await follow(url, signal, mayFetch)
    if (!response.ok) {
      await response.body?.cancel()
      throw new AttachmentError(`its server responded with HTTP ${response.status}`)
    }
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of response.body ?? []) {
      size += chunk.length
      // Leaving the loop cancels the download. The Content-Length header is not trusted.
      if (size > maxBytes) throw tooLarge(maxBytes)
      chunks.push(chunk)
    }
    return new Uint8Array(Buffer.concat(chunks))
  } catch (error) {
    if (error instanceof AttachmentError) throw error
    if (signal.aborted) throw new AttachmentError("it could not be fetched in time")
    throw new AttachmentError("it could not be fetched", { cause: error })
  }
}

/** Redirects are followed here, because each address must be checked before it is requested. */
const follow = async (
  start: string,
  signal: AbortSignal,
  mayFetch: MayFetch,
): Promise<Response> => {
  let url = start
  for (let count = 0; count <= MOST_REDIRECTS; count += 1) {
    if (!isWebUrl(url)) throw new AttachmentError("its address is not an http:// or https:// URL")
    const permission = await mayFetch(new URL(url))
    if (permission === false) {
      throw new AttachmentError(
        "its address is inside the sandbox or does not exist, and is not fetched",
      )
    }
    const response = await request(new URL(url), permission, signal)
    const location = response.headers.get("location")
    if (!REDIRECTS.has(response.status) || location === null) return response
    await response.body?.cancel()
    url = new URL(location, url).href
  }
  throw new AttachmentError(`it was redirected more than ${MOST_REDIRECTS} times`)
}

/** The name stays in the Host header and in the check of the certificate; only the lookup is replaced. */
const request = (url: URL, permission: Permission, signal: AbortSignal): Promise<Response> => {
  const options = { signal, redirect: "manual" } as const
  if (typeof permission === "boolean") return fetch(url, options)
  const { address } = permission
  const pinned = new URL(url)
  pinned.hostname = isIP(address) === 6 ? `[${address}]` : address
  const tls = { serverName: url.hostname }
  return fetch(pinned, { ...options, headers: { host: url.host }, tls })
}

const REDIRECTS = new Set([301, 302, 303, 307, 308])
