/** The directory as a session's object calls it: every method is a call of the one directory object. */
import { z } from "zod"
import type { Directory } from "../../access/directory.ts"
import { callObject } from "./object-calls.ts"
import type { DurableNamespace } from "./runtime-types.ts"

/** There is one directory per deployment. */
export const DIRECTORY_NAME = ""

export const remoteDirectory = (namespace: DurableNamespace): Directory => {
  // The result was written by the method of the same name in the same deployment.
  const call = <Name extends keyof Directory>(name: Name): Directory[Name] =>
    ((...args: readonly unknown[]) =>
      callObject(namespace, DIRECTORY_NAME, z.unknown(), name, args)) as Directory[Name]
  return {
    verifyKey: call("verifyKey"),
    createKey: call("createKey"),
    listKeys: call("listKeys"),
    revokeKey: call("revokeKey"),
    addSession: call("addSession"),
    adoptSession: call("adoptSession"),
    updateSession: call("updateSession"),
    setMembers: call("setMembers"),
    listSessions: call("listSessions"),
    sessionsOf: call("sessionsOf"),
    markRead: call("markRead"),
    admitPrompt: call("admitPrompt"),
    ownerSettings: call("ownerSettings"),
    setOwnerSettings: call("setOwnerSettings"),
    ownerModel: call("ownerModel"),
    setOwnerModel: call("setOwnerModel"),
    appendAudit: call("appendAudit"),
    listAudit: call("listAudit"),
  }
}
