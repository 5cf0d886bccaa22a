/** Delivers effects to sessions: the same kinds on every host, which differ only in how a session is reached. */
import { channelAddress, MAIN_CHANNEL } from "../../wire/channel.ts"
import type { GitHost } from "../handlers/git-host.ts"
import { applyGitChange } from "../handlers/git-retries.ts"
import { FinalFailure } from "../session/final-failure.ts"
import type { Session } from "../session/session.ts"
import type { EffectSenders } from "./effects.ts"

type Called<
  Name extends "orderWorkflow" | "cancelWorkflow" | "prompt" | "note" | "notify" | "showPull",
> = (...args: Parameters<Session[Name]>) => void | Promise<void>

/** A session as a receiver of effects. Each call ignores an id that it knows. */
export interface EffectReceiver {
  readonly orderWorkflow: Called<"orderWorkflow">
  readonly cancelWorkflow: Called<"cancelWorkflow">
  readonly prompt: Called<"prompt">
  readonly note: Called<"note">
  readonly notify: Called<"notify">
  readonly showPull: Called<"showPull">
}

export const sessionDeliveries = (
  find: (session: string) => EffectReceiver | undefined,
  git: () => GitHost,
): EffectSenders => {
  const mustFind = (session: string): EffectReceiver => {
    const found = find(session)
    if (!found) throw new FinalFailure(`session ${session} does not exist`)
    return found
  }
  return {
    order: (session, id, { frame }) => mustFind(session).orderWorkflow(id, frame),
    cancel: (session, _id, { executionId }) => mustFind(session).cancelWorkflow(executionId),
    prompt: (session, id, { content, authorName }) =>
      mustFind(session).prompt(
        {
          type: "prompt",
          messageId: id,
          content,
          ...(authorName !== undefined && { authorName }),
          ...channelAddress(MAIN_CHANNEL),
        },
        MAIN_CHANNEL,
      ),
    notify: (session, _id, { notification }) => mustFind(session).notify(notification),
    git: async (session, id, { change, requestId }) => {
      const receiver = mustFind(session)
      const content = await applyGitChange(git(), change, { session, requestId })
      await receiver.note({ id, role: "system", content })
    },
    note: (session, id, { content, approval }) =>
      mustFind(session).note({ id, role: "system", content, ...(approval && { approval }) }),
  }
}
