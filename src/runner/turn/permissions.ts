/** Permissions: allowed once by default, or asked of the session agent; an unknown id grants nothing. Pure. */
import { create, type Draft, ofTurn, send } from "./draft.ts"
import { isWaiting } from "./questions.ts"
import type { PermissionReply } from "./turn.ts"

export interface OpenPermission {
  readonly permissionId: string
}

interface Asked {
  readonly permissionId: string
  readonly title: string
  readonly patterns: readonly string[]
}

export const onPermission = (turn: Draft, { permissionId, title, patterns }: Asked): void => {
  if (turn.permissions.some((open) => open.permissionId === permissionId)) return
  if (!turn.settings.relayPermissions) {
    turn.effects.push({ do: "reply-permission", permissionId, reply: "once" })
    return
  }
  turn.permissions = [...turn.permissions, { permissionId }]
  turn.phase = "waiting"
  create(turn)
  send(turn, {
    type: "permission",
    permissionId,
    title,
    patterns: [...patterns],
    ...ofTurn(turn),
  })
}

export const onPermissionReply = (
  turn: Draft,
  permissionId: string,
  reply: PermissionReply,
): void => {
  if (!turn.permissions.some((open) => open.permissionId === permissionId)) return
  turn.permissions = turn.permissions.filter((open) => open.permissionId !== permissionId)
  turn.effects.push({ do: "reply-permission", permissionId, reply })
  if (turn.phase === "waiting" && !isWaiting(turn)) turn.phase = "streaming"
}

export const rejectPermissions = (turn: Draft): void => {
  for (const { permissionId } of turn.permissions) {
    turn.effects.push({ do: "reply-permission", permissionId, reply: "reject" })
  }
  turn.permissions = []
}
