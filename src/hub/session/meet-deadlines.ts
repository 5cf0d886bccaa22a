/** What happens when a deadline has passed. Called in a transaction, when the host's alarm has fired. */
import { abandonPrompt, dispatch, reconcile } from "./prompt-lifecycle.ts"
import type { SessionContext } from "./session-context.ts"

export const meetDeadlines = (context: SessionContext): void => {
  const { ports, deadlines, changes, runnerConnection } = context
  for (const { kind, ref } of deadlines.takeDue(ports.now())) {
    switch (kind) {
      case "stop":
      case "prompt":
        abandonPrompt(context, ref, kind)
        break
      case "barrier":
        if (runnerConnection.state().phase === "reconciling") reconcile(context)
        break
      case "ask":
        ports.sql.run("UPDATE asks SET status = 'expired' WHERE id = ? AND status = 'open'", ref)
        changes.record("ask", ref)
        break
      case "interaction":
        context.interactions.expireOne(ref)
        break
      case "access":
        // After the transaction: closing a connection may start another one.
        ports.later(0, ports.checkConnections)
        break
    }
  }
  dispatch(context)
}
