/** `sandpiper sessions`: the sessions of the running `sandpiper up`, one line each. */
import { z } from "zod"
import { type Command, print } from "./command.ts"
import { findHub } from "./find-hub.ts"

export const sessions: Command = async ({ settings }) => {
  const { url, token } = findHub(settings)
  const response = await fetch(`${url}/sessions?limit=200`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  if (!response.ok) throw new Error(`the session agent at ${url} returned HTTP ${response.status}`)
  print(describeSessions(await response.json()))
  return 0
}

const sessionList = z.object({
  sessions: z.array(
    z.object({
      id: z.string(),
      status: z.string().default(""),
      connected: z.boolean().default(false),
      working: z.number().default(0),
      queued: z.number().default(0),
      title: z.string().default(""),
    }),
  ),
})
type SessionRow = z.output<typeof sessionList>["sessions"][number]

export const describeSessions = (response: unknown): string => {
  const rows = sessionList.parse(response).sessions
  return rows.length === 0 ? "There are no sessions.\n" : rows.map(describe).join("")
}

const describe = ({ id, status, connected, working, queued, title }: SessionRow): string => {
  const state = status === "ended" ? "ended" : working > 0 ? "working" : connected ? "idle" : "away"
  const waiting = queued > 0 ? `${queued} waiting` : ""
  return `${id.padEnd(40)} ${state.padEnd(8)} ${waiting.padEnd(12)} ${title}`.trimEnd().concat("\n")
}
