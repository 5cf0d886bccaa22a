/** `permission-reply`: a person's decision. An id that nobody asked under grants nothing. */
import type { Verb } from "./command.ts"

export const permissionReply: Verb<"permission-reply"> = (
  { channels, log },
  { permissionId, reply },
) => {
  if (!channels.permit(permissionId, reply)) log.warn("permission-reply.unknown", { permissionId })
}
