/** `permission-reply`: a person's decision. An id that nobody asked under grants nothing. */
import type { Command } from "./command.ts"

export const permissionReply: Command<"permission-reply"> = (
  { channels, log },
  { permissionId, reply },
) => {
  if (!channels.replyPermission(permissionId, reply))
    log.warn("permission-reply.unknown", { permissionId })
}
