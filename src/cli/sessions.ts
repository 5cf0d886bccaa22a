/** `sandpiper sessions`: every directory in which `up` has worked, with the sessions of each one that is running. */
import { z } from "zod"
import { type HubAddress, readAddress } from "../hub/hosts/bun/address.ts"
import { type Command, print } from "./command.ts"
import { findHub } from "./find-hub.ts"
import { describeOwner } from "./place/owner-text.ts"
import { listPlaces, type Place, runningOwner } from "./place/place.ts"

export const sessions: Command = async ({ settings }) => {
  if (settings.given.has("stateDir")) {
    print(await sessionsOf(findHub(settings)))
    return 0
  }
  const places = listPlaces(settings.stateDir)
  if (places.length === 0) print("There are no sessions: start one with `sandpiper up`.\n")
  for (const place of places) print(await describePlace(place))
  return 0
}

const describePlace = async (place: Place): Promise<string> => {
  const owner = runningOwner(place)
  const address = readAddress(place.stateDir)
  if (!owner || !address) return `${place.directory}  not running\n`
  const rows = await sessionsOf(address).catch(() => "the session agent does not respond\n")
  return `${place.directory}  running (${describeOwner(owner)})\n${rows.replaceAll(/^(?=.)/gm, "  ")}`
}

const sessionsOf = async ({ url, token }: HubAddress): Promise<string> => {
  const response = await fetch(`${url}/sessions?limit=200`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  if (!response.ok) throw new Error(`the session agent at ${url} returned HTTP ${response.status}`)
  return describeSessions(await response.json())
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
