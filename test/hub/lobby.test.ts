/** The lobby without a host: after any changes of the list, a client that applies the events has the list. */
import { expect, test } from "bun:test"
import { array, assert, asyncProperty, constantFrom, integer, record } from "fast-check"
import type { Principal } from "../../src/hub/access/principal.ts"
import { createLobby } from "../../src/hub/lobby.ts"
import type { ListedSession, LobbyEvent } from "../../src/wire/clients/lobby.ts"

const operator: Principal = { kind: "operator" } as Principal

const session = (id: string, rev: number): ListedSession => ({
  id,
  owner: "user:local",
  title: "",
  status: "running",
  createdAt: 1,
  activeAt: 1,
  rev,
  unread: false,
  dollars: 0,
  tokens: 0,
  bytes: 0,
})

const start = () => {
  let now = 1000
  let list: readonly ListedSession[] = []
  let timer: (() => void) | undefined
  const events: LobbyEvent[] = []
  const closes: number[] = []
  const lobby = createLobby({
    list: async () => list,
    now: () => now,
    later: (_ms, run) => {
      timer = run
      return () => (timer = undefined)
    },
    failed: () => {},
  })
  return {
    lobby,
    events,
    closes,
    setNow: (at: number) => (now = at),
    connect: (principal = operator, subscribed = false) =>
      lobby.add(
        "c1",
        {
          principal,
          send: (text) => void events.push(JSON.parse(text)),
          close: (code) => void closes.push(code),
        },
        subscribed,
      ),
    /** The list has changed, and the lobby has looked at it. */
    change: async (next: readonly ListedSession[]) => {
      list = next
      lobby.changed()
      const run = timer
      timer = undefined
      run?.()
      // Sleep: yields to the event loop so that the lobby reads the list.
      await Bun.sleep(0)
    },
  }
}

const listOf = (events: readonly LobbyEvent[]) => {
  const known = new Map<string, ListedSession>()
  for (const event of events) {
    if (event.type === "lobby") {
      known.clear()
      for (const one of event.sessions) known.set(one.id, one)
    } else if (event.type === "session") known.set(event.session.id, event.session)
    else known.delete(event.id)
  }
  return [...known.values()].toSorted((a, b) => a.id.localeCompare(b.id))
}

test("after any changes a client that applies the events has the present list", async () => {
  const rows = array(record({ id: constantFrom("a", "b", "c", "d"), rev: integer({ max: 2 }) }))
  await assert(
    asyncProperty(array(rows, { maxLength: 8 }), async (lists) => {
      const stage = start()
      stage.connect()
      stage.lobby.receive("c1", '{"type":"subscribe"}')
      // Sleep: yields to the event loop so that the lobby reads the list.
      await Bun.sleep(0)
      for (const given of lists) {
        const next = [...new Map(given.map(({ id, rev }) => [id, session(id, rev)])).values()]
        await stage.change(next)
        expect(listOf(stage.events)).toEqual(next.toSorted((a, b) => a.id.localeCompare(b.id)))
      }
      const revs = stage.events.map(({ rev }) => rev)
      expect(revs).toEqual([...new Set(revs)].toSorted((a, b) => a - b))
    }),
    { numRuns: 200 },
  )
})

test("a change that does not concern a client's list sends nothing, and a client that has not subscribed gets nothing", async () => {
  const stage = start()
  stage.connect()
  await stage.change([session("a", 1)])
  expect(stage.events).toEqual([])
  stage.lobby.receive("c1", '{"type":"subscribe"}')
  // Sleep: yields to the event loop so that the lobby reads the list.
  await Bun.sleep(0)
  await stage.change([session("a", 1)])
  expect(stage.events.map(({ type }) => type)).toEqual(["lobby"])
})

test("after a sleep of its host a subscribed client gets the whole list at the next change", async () => {
  const stage = start()
  stage.connect(operator, true)
  await stage.change([session("a", 2)])
  expect(stage.events).toMatchObject([{ type: "lobby", sessions: [{ id: "a", rev: 2 }] }])
})

test("a client whose token has expired is disconnected and gets nothing more", async () => {
  const stage = start()
  stage.connect({ ...operator, expiresAt: 2000 }, true)
  stage.setNow(2001)
  await stage.change([session("a", 1)])
  expect([stage.events, stage.closes]).toEqual([[], [1008]])
})

test("a message that the lobby does not know is refused, and a ping is answered", () => {
  const stage = start()
  stage.connect()
  for (const text of ['{"type":"prompt"}', "not json", "null", '{"type":"ping"}'])
    stage.lobby.receive("c1", text)
  expect(stage.events.map((event): string => event.type)).toEqual([
    "reply",
    "reply",
    "reply",
    "pong",
  ])
  expect(stage.events[0]).toMatchObject({
    error: { message: 'there is no verb "prompt": expected one of subscribe, ping' },
  })
  expect(stage.events[1]).toMatchObject({
    error: { message: "the message names no verb in `type`: expected one of subscribe, ping" },
  })
})
