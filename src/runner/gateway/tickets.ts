/** Single-use tickets for links: a ticket gives access to one path within 30 seconds of its issue. */
import { randomBytes } from "node:crypto"

export interface Tickets {
  readonly issue: (scope: string) => { readonly ticket: string; readonly expiresAt: number }
  /** The path of the ticket, which becomes invalid. `undefined` if it is unknown or expired. */
  readonly redeem: (ticket: string) => string | undefined
  readonly clear: () => void
}

const TICKET_MS = 30_000
const MOST_TICKETS = 1000

export const createTickets = (now: () => number): Tickets => {
  const tickets = new Map<string, { readonly scope: string; readonly expiresAt: number }>()
  return {
    issue: (scope) => {
      for (const [ticket, { expiresAt }] of tickets) {
        if (expiresAt > now() && tickets.size < MOST_TICKETS) break
        tickets.delete(ticket)
      }
      const ticket = randomBytes(32).toString("hex")
      const expiresAt = now() + TICKET_MS
      tickets.set(ticket, { scope, expiresAt })
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
