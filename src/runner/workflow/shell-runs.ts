/**
 * Workflows that a shell of the sandbox orders. The agent may run one, but an approval is a person's: the agent's result has
 * no token that continues the run, and its order to resume is refused. The runner's own user may decide without the token.
 */
import type { Envelope } from "./execution-store.ts"
import type { Executions } from "./executions.ts"
import { shellOrder } from "./order-sources.ts"

export type ShellCaller = "owner" | "agent"

export const runFromShell = async (
  executions: Pick<Executions, "execute" | "approvalToken">,
  given: unknown,
  caller: ShellCaller,
  disconnected: AbortSignal,
): Promise<object> => {
  const order = shellOrder(given)
  const { executionId, payload } = order
  if (caller === "owner") {
    const resumeToken = payload.resumeToken ?? executions.approvalToken(executionId)
    return executions.execute({ ...order, payload: { ...payload, resumeToken } }, disconnected)
  }
  if (payload.kind === "resume")
    return {
      ok: false,
      status: "failed",
      executionId,
      error:
        "an approval is a person's decision: let the user run `sandpiper workflow resume FILE` as the runner's own user",
    }
  return withoutToken(await executions.execute(order, disconnected))
}

const withoutToken = ({ requiresApproval: waiting, ...rest }: Envelope): object => {
  if (!waiting) return rest
  const { resumeToken: _token, ...visible } = waiting
  return { ...rest, requiresApproval: visible }
}
