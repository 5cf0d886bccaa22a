/** The list of sessions as lines: which there are, what each is doing. */

interface Listed {
  readonly id: string
  readonly status?: string
  readonly connected?: boolean
  readonly working?: number
  readonly queued?: number
  readonly title?: string
}

export const describeSessions = (answer: unknown): string => {
  const { sessions } = answer as { sessions: readonly Listed[] }
  if (sessions.length === 0) return "There are no sessions.\n"
  return sessions.map(describe).join("")
}

const describe = (session: Listed): string => {
  const { id, status = "", connected = false, working = 0, queued = 0, title = "" } = session
  const now = status === "ended" ? "ended" : working > 0 ? "working" : connected ? "idle" : "away"
  const waiting = queued > 0 ? `${queued} waiting` : ""
  return `${id.padEnd(40)} ${now.padEnd(8)} ${waiting.padEnd(12)} ${title}`.trimEnd().concat("\n")
}
