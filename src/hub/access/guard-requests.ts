/** The guard of a runner's requests: its own session, ancestors and descendants of the same owner, and its owner's store. */
import { Refusal } from "../handlers/handler-table.ts"
import type { RequestFrame } from "../../wire/frames/index.ts"
import { may, sessionOfRequest } from "./may.ts"
import type { Target } from "./ownership.ts"
import type { Runner } from "./principal.ts"
import { accessTable } from "./table.ts"

/** Throws the refusal of a session that does not exist, also for one that the runner may not know of. */
export const guardRequest = async (
  runner: Runner,
  frame: RequestFrame,
  targetOf: (session: string) => Target | undefined | Promise<Target | undefined>,
): Promise<void> => {
  const action = `request:${frame.type}` as const
  const rule = accessTable[action]
  if (rule.guard === "principal" && rule.on === "owner") {
    if (!may(runner, action, { owner: runner.owner }))
      throw new Refusal(`this session may not send ${frame.type}`)
    if (frame.type !== "mailbox-send" || frame.toSessionId === undefined) return
    // Any session of the owner may get mail; one that no session could read is not accepted.
    const receiver = await targetOf(frame.toSessionId)
    if (receiver?.owner !== runner.owner)
      throw new Refusal(`there is no session ${frame.toSessionId}`)
    return
  }
  const id = sessionOfRequest(frame, runner.session)
  const target =
    id === runner.session
      ? { id, owner: runner.owner, ancestors: runner.ancestors }
      : await targetOf(id)
  if (!may(runner, action, target)) throw new Refusal(`there is no session ${id}`)
}
