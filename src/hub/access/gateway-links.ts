/**
 * Links to a sandbox's gateway: a URL with a JWT that is valid for 60 s, signed with the session's own gateway key
 * (`gatewayKey` in keys.ts, the runner's JWT_SECRET). The claims are those that the gateway checks: `sid`, `sub`, `exp`.
 */
import { SignJWT } from "jose"

export interface GatewayLinkInput {
  /** The gateway's public address. */
  readonly gatewayUrl: string
  readonly to: GatewayDestination
  readonly session: string
  /** Who opens the link; the gateway logs it. */
  readonly sub: string
  readonly key: string
  readonly now: number
  /** Lets the gateway accept the link once. */
  readonly jti: string
}

export interface GatewayDestination {
  readonly name: string
  /** The path of the gateway that the link gives access to, with everything below it. */
  readonly path: string
  /** What is opened there, relative to `path`; by default `path` itself. */
  readonly page?: string
  /** The tunnel that is opened. */
  readonly tunnel?: string
}

const LIFETIME_SECONDS = 60

const places: Readonly<Record<string, Omit<GatewayDestination, "name">>> = {
  vscode: { path: "/vscode/" },
  // noVNC has no index page. It connects by itself and fits the screen into the window.
  vnc: { path: "/vnc/", page: "vnc.html?path=vnc/websockify&autoconnect=true&resize=scale" },
  terminal: { path: "/terminal/" },
}

/** Reads `vscode`, `vnc`, `terminal` or `tunnel:<name>`. */
export const parseDestination = (to: string): GatewayDestination | undefined => {
  const place = Object.hasOwn(places, to) ? places[to] : undefined
  if (place) return { name: to, ...place }
  const tunnel = /^tunnel:([A-Za-z0-9_-]{1,32})$/.exec(to)?.[1]
  return tunnel === undefined ? undefined : { name: to, path: `/t/${tunnel}/`, tunnel }
}

/** `path` is a claim too, so that the gateway can limit the cookie to it. */
export const makeGatewayLink = async (
  input: GatewayLinkInput,
): Promise<{ readonly url: string; readonly expiresAt: number }> => {
  const issued = Math.floor(input.now / 1000)
  const token = await new SignJWT({ sid: input.session, path: input.to.path })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setSubject(input.sub)
    .setJti(input.jti)
    .setIssuedAt(issued)
    .setExpirationTime(issued + LIFETIME_SECONDS)
    .sign(new TextEncoder().encode(input.key))
  const url = new URL(`${input.to.path}${input.to.page ?? ""}`, input.gatewayUrl)
  url.searchParams.set("token", token)
  return { url: url.href, expiresAt: (issued + LIFETIME_SECONDS) * 1000 }
}
