/** Open connections whose access has ended. */
import { expect, test } from "bun:test"
import { connectionsToClose, nextExpiry } from "../../../src/hub/access/open-connections.ts"
import { callers, sessions } from "./principals.ts"

const connections = Object.entries(callers).map(([id, principal]) => ({ id, principal }))
const all = () => true

test("connections of people who may read stay open, and the runner's is not touched", () => {
  const open = connections.filter(({ id }) =>
    ["operator", "owner", "viewer", "editor", "coOwner", "runner"].includes(id),
  )
  expect(connectionsToClose(open, sessions.shared, 0, all)).toEqual([])
})

test("a removed member's connection is closed", () => {
  const members = sessions.shared.members.filter(({ sub }) => sub !== "ed")
  const open = connections.filter(({ id }) => ["viewer", "editor", "owner"].includes(id))
  expect(connectionsToClose(open, { ...sessions.shared, members }, 0, all)).toEqual(["editor"])
})

test("a connection is closed when its token expires, and the next time to look is known", () => {
  const open = connections.filter(({ id }) => ["owner", "viewerLink"].includes(id))
  expect(nextExpiry(open)).toBe(10)
  expect(connectionsToClose(open, sessions.shared, 9, all)).toEqual([])
  expect(connectionsToClose(open, sessions.shared, 10, all)).toEqual(["viewerLink"])
  expect(nextExpiry([])).toBeUndefined()
})

test("a connection is closed when its share link is revoked", () => {
  const open = connections.filter(({ id }) => ["viewerLink", "editorLink"].includes(id))
  const closed = connectionsToClose(
    open,
    sessions.shared,
    0,
    (principal) => principal.kind !== "share-link" || principal.link !== "link1",
  )
  expect(closed).toEqual(["viewerLink"])
})
