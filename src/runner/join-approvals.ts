/** Joins the approvals of operations: the question goes to the channel of the turn that asks. */
import type { Clock } from "../lib/clock.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { channelAddress } from "../wire/channel.ts"
import { operations } from "../wire/operations/index.ts"
import type { Channels } from "./channels/channels.ts"
import { type Approvals, createApprovals } from "./gateway/approvals.ts"
import type { Link } from "./link/link.ts"

export interface JoinApprovalsOptions {
  /** APPROVE_ACTIONS. */
  readonly actions: readonly string[]
  readonly channels: () => Pick<Channels, "originOf" | "active">
  readonly send: Link["send"]
  readonly clock: Clock
}

/** What a person is shown of the input. */
const MOST_CHARACTERS = 500

/** Throws for a name that is not in the table: an approval that never applies would be a hole. */
export const refuseUnknownActions = (actions: readonly string[]): void => {
  const known = new Set(operations.map(({ name }) => name))
  const unknown = actions.filter((name) => !known.has(name))
  if (unknown.length > 0)
    throw new SettingsError(
      `APPROVE_ACTIONS: there is no action ${unknown.join(", ")}; \`sandpiper actions list\` shows them`,
    )
}

export const joinApprovals = (options: JoinApprovalsOptions): Approvals => {
  refuseUnknownActions(options.actions)
  return createApprovals({
    actions: new Set(options.actions),
    ask: ({ permissionId, action, input, sessionId, waitMs }) => {
      const channels = options.channels()
      const origin =
        (sessionId === undefined ? undefined : channels.originOf(sessionId)) ?? onlyTurn(channels)
      options.send({
        type: "permission",
        permissionId,
        title: `Run the action ${action}`,
        patterns: [JSON.stringify(input).slice(0, MOST_CHARACTERS)],
        tool: action,
        waitMs,
        ...origin,
      })
      return origin?.messageId
    },
    newId: () => crypto.randomUUID(),
    clock: options.clock,
  })
}

/** A command in the agent's shell does not name its turn; if one turn runs, it is that one's. */
const onlyTurn = ({ active }: Pick<Channels, "active">) => {
  const [turn, ...others] = active().filter(({ turnId }) => turnId !== undefined)
  if (turn === undefined || others.length > 0) return undefined
  return { messageId: turn.messageId, ...channelAddress(turn.channelKey) }
}
