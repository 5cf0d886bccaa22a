/** The channel map on disk: a channel keeps its agent session across restarts of the runner. */
import type { Database } from "bun:sqlite"
import type { ChannelStore } from "./agent-sessions.ts"

export const openChannelStore = (db: Database): ChannelStore => {
  db.run("CREATE TABLE IF NOT EXISTS channels (key TEXT PRIMARY KEY, session TEXT NOT NULL) STRICT")
  const find = db.query<{ session: string }, [string]>("SELECT session FROM channels WHERE key = ?")
  const put = db.query(
    "INSERT INTO channels (key, session) VALUES (?, ?) ON CONFLICT DO UPDATE SET session = excluded.session",
  )
  const all = db.query<{ session: string }, []>("SELECT DISTINCT session FROM channels")
  const byAgentSession = db.query<{ key: string }, [string]>(
    "SELECT key FROM channels WHERE session = ? ORDER BY rowid DESC LIMIT 1",
  )
  const remove = db.query("DELETE FROM channels WHERE key = ?")
  return {
    all: () => all.all().map(({ session }) => session),
    channelOf: (agentSessionId) => byAgentSession.get(agentSessionId)?.key,
    agentSessionOf: (key) => find.get(key)?.session,
    setAgentSession: (key, agentSessionId) => {
      if (agentSessionId === undefined) remove.run(key)
      else put.run(key, agentSessionId)
    },
  }
}
