/**
 * Access to the gateway of a session's sandbox: links, for the verb `open` and for `POST /sessions/:id/links`, and control
 * tokens for its `/v1`.
 */
import { z } from "zod"
import { CONTROL_SECONDS, signControlToken } from "../../lib/control-token.ts"
import type { Client, RefusalCode } from "../../wire/clients/verbs.ts"
import { type GatewayDestination, makeGatewayLink, parseDestination } from "./gateway-links.ts"
import type { GuardPorts, HostedSession } from "./guarded-clients.ts"

type Refused = { readonly ok: false; readonly code: RefusalCode; readonly message: string }

export type OpenedLink =
  | { readonly ok: true; readonly url: string; readonly expiresAt: number }
  | Refused

const refused = (code: RefusalCode, message: string): Refused => ({ ok: false, code, message })

type GatewayPorts = Pick<GuardPorts, "gatewayKey" | "gatewayUrl" | "now">

const tunnelNames = z.array(z.object({ name: z.string() }))
const serviceStates = z.record(z.string(), z.unknown())

/** What switches a service on that the runner reports as off. */
const HOW_TO_START: Readonly<Record<string, string>> = {
  vscode: "start the runner with SANDPIPER_SERVICES=vscode",
  vnc: "start the runner with SANDPIPER_SERVICES=vnc",
  terminal: "the runner is built without the page",
}

/** `sub` is the person who opens the link. A tunnel must exist; those of a sandbox that sleeps are known. */
export const openLink = async (
  ports: GatewayPorts,
  hosted: HostedSession,
  to: GatewayDestination,
  sub: string,
): Promise<OpenedLink> => {
  const services = serviceStates.safeParse(hosted.session.state("services")).data
  if (services?.[to.name] === "off")
    return refused("conflict", `${to.name} is off in this sandbox: ${HOW_TO_START[to.name] ?? ""}`)
  if (to.tunnel !== undefined) {
    const known = tunnelNames.safeParse(hosted.session.state("tunnels")).data ?? []
    if (!known.some(({ name }) => name === to.tunnel))
      return refused("not-found", `tunnel ${to.tunnel} does not exist`)
  }
  const gateway = await findGateway(ports, hosted)
  if (!gateway.ok) return gateway
  const link = await makeGatewayLink({
    gatewayUrl: gateway.url,
    to,
    session: hosted.id,
    sub,
    key: gateway.key,
    now: ports.now(),
    jti: crypto.randomUUID(),
  })
  return { ok: true, ...link }
}

/** A token for `/v1` of the gateway, and the gateway's address. It is valid for every request until it expires. */
export const makeControlToken = async (ports: GatewayPorts, hosted: HostedSession) => {
  const gateway = await findGateway(ports, hosted)
  if (!gateway.ok) return gateway
  const now = ports.now()
  const token = await signControlToken({
    key: gateway.key,
    sessionId: hosted.id,
    jti: crypto.randomUUID(),
    now,
  })
  const expiresAt = (Math.floor(now / 1000) + CONTROL_SECONDS) * 1000
  return { ok: true, token, url: gateway.url, expiresAt } as const
}

const findGateway = async (
  ports: GatewayPorts,
  hosted: HostedSession,
): Promise<{ readonly ok: true; readonly url: string; readonly key: string } | Refused> => {
  // A runner of another program has a sandbox that the fleet does not know.
  const { hasOtherRunner } = hosted.session.activity()
  const ofFleet = hasOtherRunner ? undefined : await ports.gatewayUrl?.(hosted)
  // The runner of a paused sandbox seems to be connected. Nothing would answer at its address.
  if (ofFleet === null)
    return refused("no-runner", "the sandbox sleeps and could not be woken: try again later")
  const gatewayUrl = ofFleet ?? hosted.session.gatewayUrl()
  if (gatewayUrl === undefined)
    return refused("no-runner", "the sandbox's gateway is not known: no runner is connected")
  const key = await ports.gatewayKey(hosted)
  if (key === undefined)
    return refused("no-runner", "the session agent has no gateway key: set HUB_GATEWAY_SECRET")
  return { ok: true, url: gatewayUrl, key }
}

/** The verb `open`. */
export const openByVerb = async (
  ports: GatewayPorts,
  hosted: HostedSession,
  { what, name }: Client<"open">,
  sub: string,
): Promise<OpenedLink> => {
  if ((what === "tunnel") !== (name !== undefined))
    return refused("bad-request", "name: expected with a tunnel, and only with a tunnel")
  const to = parseDestination(name === undefined ? what : `tunnel:${name}`)
  if (!to) return refused("bad-request", "name: expected 1 to 32 letters, digits, _ or -")
  return openLink(ports, hosted, to, sub)
}
