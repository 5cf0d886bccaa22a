/** Links to the gateway of a session's sandbox, for the verb `open` and for `POST /sessions/:id/links`. */
import { z } from "zod"
import type { Client, RefusalCode } from "../../wire/clients/verbs.ts"
import { type GatewayDestination, makeGatewayLink, parseDestination } from "./gateway-links.ts"
import type { GuardPorts, HostedSession } from "./guarded-clients.ts"

export type OpenedLink =
  | { readonly ok: true; readonly url: string; readonly expiresAt: number }
  | { readonly ok: false; readonly code: RefusalCode; readonly message: string }

const refused = (code: RefusalCode, message: string): OpenedLink => ({ ok: false, code, message })

const tunnelNames = z.array(z.object({ name: z.string() }))

/** `sub` is the person who opens the link. A tunnel must exist; those of a sandbox that sleeps are known. */
export const openLink = async (
  ports: Pick<GuardPorts, "gatewayKey" | "gatewayUrl" | "now">,
  hosted: HostedSession,
  to: GatewayDestination,
  sub: string,
): Promise<OpenedLink> => {
  if (to.tunnel !== undefined) {
    const known = tunnelNames.safeParse(hosted.session.state("tunnels")).data ?? []
    if (!known.some(({ name }) => name === to.tunnel))
      return refused("not-found", `tunnel ${to.tunnel} does not exist`)
  }
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
  const link = await makeGatewayLink({
    gatewayUrl,
    to,
    session: hosted.id,
    sub,
    key,
    now: ports.now(),
    jti: crypto.randomUUID(),
  })
  return { ok: true, ...link }
}

/** The verb `open`. */
export const openByVerb = async (
  ports: Pick<GuardPorts, "gatewayKey" | "gatewayUrl" | "now">,
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
