/** The channel map on disk: a channel keeps its conversation across restarts of the runner. */
import type { Database } from "bun:sqlite"
import type { ChannelStore } from "./channels.ts"

export const openChannelStore = (db: Database): ChannelStore => {
  db.run("CREATE TABLE IF NOT EXISTS channels (key TEXT PRIMARY KEY, session TEXT NOT NULL) STRICT")
  const find = db.query<{ session: string }, [string]>("SELECT session FROM channels WHERE key = ?")
  const put = db.query(
    "INSERT INTO channels (key, session) VALUES (?, ?) ON CONFLICT DO UPDATE SET session = excluded.session",
  )
  const remove = db.query("DELETE FROM channels WHERE key = ?")
  return {
    sessionOf: (key) => find.get(key)?.session,
    setSession: (key, sessionId) => {
      if (sessionId === undefined) remove.run(key)
      else put.run(key, sessionId)
    },
  }
}
