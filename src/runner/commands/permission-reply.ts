/** `permission-reply`: a person's decision on a permission request. An unknown id is ignored and grants nothing. */
import type { Command } from "./command.ts"

export const permissionReply: Command<"permission-reply"> = (
  { channels, log },
  { permissionId, reply },
) => {
  if (!channels.replyPermission(permissionId, reply))
    log.warn("permission-reply.unknown", { permissionId })
}
