/** The reasons with which the session agent closes the link for good: the runner ends instead of reconnecting. Pure. */

export const closeReasons = {
  /** Another runner connected to the same session. */
  replaced: "Replaced by new runner connection",
  /** The session has ended. */
  terminated: "Session terminated",
  /** The session is put to sleep. */
  hibernating: "Session hibernating",
  /** The session agent regards this sandbox as ended. */
  exited: "Sandbox already exited",
} as const

export type CloseReason = keyof typeof closeReasons

/** Which reason a close frame gives, if it is one of these. The text around it may differ between session agents. */
export const closeReasonOf = (text: string): CloseReason | undefined => {
  const names: readonly CloseReason[] = ["replaced", "terminated", "hibernating", "exited"]
  return names.find((name) => text.includes(closeReasons[name]))
}
