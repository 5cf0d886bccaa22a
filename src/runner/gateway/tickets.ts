/** Single-use tickets for links: a ticket gives access to one path of one site within 30 seconds of its issue. */
import { randomBytes } from "node:crypto"

/** A path, and the tunnel whose own host it is on; empty for the gateway's host. */
export interface TicketScope {
  readonly path: string
  readonly site: string
}

export interface Tickets {
  readonly issue: (
    path: string,
    site?: string,
  ) => { readonly ticket: string; readonly expiresAt: number }
  /** What the ticket opens; it becomes invalid. `undefined` if it is unknown or expired. */
  readonly redeem: (ticket: string) => TicketScope | undefined
  readonly clear: () => void
}

const TICKET_MS = 30_000
const MOST_TICKETS = 1000

export const createTickets = (now: () => number): Tickets => {
  const tickets = new Map<string, { readonly scope: TicketScope; readonly expiresAt: number }>()
  return {
    issue: (path, site = "") => {
      for (const [ticket, { expiresAt }] of tickets) {
        if (expiresAt > now() && tickets.size < MOST_TICKETS) break
        tickets.delete(ticket)
      }
      const ticket = randomBytes(32).toString("hex")
      const expiresAt = now() + TICKET_MS
      tickets.set(ticket, { scope: { path, site }, expiresAt })
      return { ticket, expiresAt }
    },
    redeem: (ticket) => {
      const found = tickets.get(ticket)
      tickets.delete(ticket)
      return found && found.expiresAt > now() ? found.scope : undefined
    },
    clear: () => tickets.clear(),
  }
}
