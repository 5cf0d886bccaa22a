/** The calls that other objects of this deployment may make to a session's object. */
import { ACCESS_ENDED } from "../../access/close-connections.ts"
import type { OwnerAccount } from "../../access/directory.ts"
import { LOCAL_OWNER, type Owner } from "../../access/ownership.ts"
import type { Provision } from "../../provision.ts"
import { FinalFailure } from "../../session/final-failure.ts"
import type { Session } from "../../session/session.ts"
import type { EffectReceiver } from "../../shared-store/session-deliveries.ts"
import type { ObjectContext } from "./object-context.ts"
import { storeNameOf } from "./shared-store-object.ts"

export const sessionCalls = ({
  hosted,
  sockets,
  provision,
  end,
  checkConnections,
}: ObjectContext) => {
  const session = (): Session => {
    const found = hosted()
    if (!found) throw new FinalFailure("the session does not exist")
    return found.session
  }
  const mustHaveStore = (store: string): void => {
    if (storeNameOf(hosted()?.access.owner() ?? LOCAL_OWNER) !== store)
      throw new FinalFailure("the session does not exist")
  }
  return {
    exists: () => hosted() !== undefined,
    target: () => hosted()?.access.target() ?? null,
    provision: (...args: [string, Owner, Provision]) => provision(...args),
    keyRevoked: (prefix: string) => {
      const found = hosted()
      found?.access.shareLinks.revokeMadeBy(found.id, prefix)
      if (found) checkConnections()
      for (const { id, principal } of sockets.people()) {
        if (principal.kind === "person" && principal.key === prefix)
          sockets.close(id, ...ACCESS_ENDED)
      }
    },
    ownerAccount: (account: OwnerAccount) => hosted()?.session.setOwnerAccount(account),
    encryptAgain: () => void hosted()?.session.configure({}),
    /** An effect of a shared store: only of the owner's own. */
    effect: (store: string, name: keyof EffectReceiver, ...args: readonly unknown[]) => {
      mustHaveStore(store)
      const run: (...given: never[]) => unknown = session()[name]
      return run(...(args as never[]))
    },
    status: () => session().status(),
    search: (query: string, limit: number) => session().search(query, limit),
    recent: (limit: number) => session().recent(limit),
    channels: () => session().channels(),
    hasPromptFrom: (channel: string) => session().hasPromptFrom(channel),
    prompt: (...args: Parameters<Session["prompt"]>) => session().prompt(...args),
    showPull: (...args: Parameters<Session["showPull"]>) => session().showPull(...args),
    note: (...args: Parameters<Session["note"]>) => session().note(...args),
    /** By the parent session, which has the same owner. */
    terminate: (owner: Owner, why: string, quiet: boolean) => {
      if (hosted()?.access.owner() !== owner) throw new FinalFailure("the session does not exist")
      return end(why, quiet)
    },
    /** A report of a child, which has the same owner. */
    childReported: (store: string, ...args: Parameters<Session["childReported"]>) => {
      mustHaveStore(store)
      session().childReported(...args)
    },
  }
}
