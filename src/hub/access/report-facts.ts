/** Reports what a session has done to the directory: at once when it has cost something, otherwise at most once a second. */
import type { Directory, OwnerAccount } from "./directory.ts"
import { type Owner, POOL_OWNER } from "./ownership.ts"
import type { IndexedFacts } from "./session-index.ts"

export interface FactsReporterOptions {
  readonly directory: Directory
  readonly session: string
  readonly owner: () => Owner
  readonly facts: () => Partial<IndexedFacts>
  /** What the owner has spent over all its sessions, after the report. */
  readonly account: (account: OwnerAccount) => void
  readonly later: (ms: number, run: () => void) => () => void
  readonly failed: (error: unknown) => void
}

const REPORT_MS = 1000

export const createFactsReporter = (options: FactsReporterOptions): ((urgent: boolean) => void) => {
  const { directory, session } = options
  /** Within a second of the last report. */
  let cooling = false
  let waiting = false
  const send = async () => {
    // A session of the warm pool is in no list.
    if (options.owner() === POOL_OWNER) return
    const facts = options.facts()
    const known = await directory.updateSession(session, facts)
    if (known) return options.account(known)
    // A session from before there was an index.
    await directory.adoptSession(session, options.owner())
    const account = await directory.updateSession(session, facts)
    if (account) options.account(account)
  }
  const report = () => {
    waiting = false
    if (!cooling) {
      cooling = true
      options.later(REPORT_MS, () => {
        cooling = false
        if (waiting) report()
      })
    }
    send().catch(options.failed)
  }
  return (urgent) => {
    if (urgent || !cooling) return report()
    waiting = true
  }
}
