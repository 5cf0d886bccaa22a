/** Permission requests: allowed once by default, or relayed. A reply to an unknown id is ignored. Pure. */
import type { PermissionReply } from "../../wire/permission.ts"
import { type Asker, callAddress, createMessage, type Draft, turnAddress, send } from "./draft.ts"
import { isWaiting } from "./questions.ts"

export interface OpenPermission {
  readonly permissionId: string
}

interface PermissionRequest extends Asker {
  readonly permissionId: string
  readonly title: string
  readonly patterns: readonly string[]
  readonly tool?: string
}

export const onPermission = (turn: Draft, request: PermissionRequest): void => {
  const { permissionId, title, patterns, tool } = request
  if (turn.permissions.some((open) => open.permissionId === permissionId)) return
  // The person at the other client of OpenCode decides there.
  if (turn.settings.observed && !turn.settings.relayPermissions) return
  if (!turn.settings.relayPermissions) {
    turn.effects.push({ do: "reply-permission", permissionId, reply: "once" })
    return
  }
  turn.permissions = [...turn.permissions, { permissionId }]
  turn.phase = "waiting"
  createMessage(turn)
  send(turn, {
    type: "permission",
    permissionId,
    title,
    patterns: [...patterns],
    ...(tool !== undefined && { tool }),
    ...callAddress(turn, request),
    ...turnAddress(turn),
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
