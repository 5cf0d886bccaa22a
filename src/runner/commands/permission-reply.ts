/** `permission-reply`: a person's decision on a permission request. An unknown id is ignored and grants nothing. */
import type { Command } from "./command.ts"

export const permissionReply: Command<"permission-reply"> = (
  { channels, replyApproval, log },
  { permissionId, reply },
) => {
  if (replyApproval(permissionId, reply)) return
  if (!channels.replyPermission(permissionId, reply))
    log.warn("permission-reply.unknown", { permissionId })
}
