import { expect, test } from "bun:test"
import { stepLobby } from "../../../src/hub/view/lobby.ts"
import type { ListedSession } from "../../../src/wire/clients/lobby.ts"

const listed = (id: string, title = ""): ListedSession => ({
  id,
  title,
  owner: "user:local",
  status: "running",
  createdAt: 0,
  activeAt: 0,
  rev: 0,
  unread: false,
  dollars: 0,
  tokens: 0,
  bytes: 0,
})

test("the list of sessions follows the events of the lobby", () => {
  const first = stepLobby(undefined, {
    type: "lobby",
    rev: 1,
    sessions: [listed("a"), listed("b")],
  })
  const changed = stepLobby(first, { type: "session", rev: 2, session: listed("b", "B") })
  expect(changed).toEqual([listed("a"), listed("b", "B")])
  const added = stepLobby(changed, { type: "session", rev: 3, session: listed("c") })
  expect(added?.map(({ id }) => id)).toEqual(["c", "a", "b"])
  const removed = stepLobby(added, { type: "session.removed", rev: 4, id: "a" })
  expect(removed?.map(({ id }) => id)).toEqual(["c", "b"])
  expect(stepLobby(removed, { type: "lobby", rev: 5, sessions: [] })).toEqual([])
})

test("a change of one session before the first list is not a list", () => {
  expect(stepLobby(undefined, { type: "session", rev: 1, session: listed("a") })).toBeUndefined()
  expect(stepLobby(undefined, { type: "session.removed", rev: 1, id: "a" })).toBeUndefined()
})
