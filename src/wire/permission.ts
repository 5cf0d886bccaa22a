/** The decision on a permission request: allow this call, allow all calls like it, or refuse. */
import { z } from "zod"

export const permissionReply = z.enum(["once", "always", "reject"])

export type PermissionReply = z.infer<typeof permissionReply>
