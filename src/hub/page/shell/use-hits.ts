/** Messages that contain a text, in all sessions that this login may read; also those that are not on the page. */
import { useEffect, useState } from "preact/hooks"
import type { SearchHit } from "../../../wire/clients/conversation.ts"
import { searchMessages } from "../client/api.ts"
import { request, session } from "../client/store.ts"

export type Hit = SearchHit & { readonly session: string }

const PAUSE_MS = 250
const MIN_QUERY = 2
const MAX_HITS = 20

/** A login for one session may search in that session only. */
const find = async (query: string): Promise<readonly Hit[] | undefined> => {
  const all = await searchMessages(query)
  if (all) return all.slice(0, MAX_HITS)
  const here = session.value
  const reply = await request({ type: "search", query, limit: MAX_HITS })
  if (!reply.ok || !Array.isArray(reply["hits"])) return undefined
  return (reply["hits"] as readonly SearchHit[]).map((hit) => ({ ...hit, session: here }))
}

export const useHits = (
  query: string,
): {
  readonly hits: readonly Hit[]
  readonly state: "idle" | "busy" | "done" | "failed"
  readonly retry: () => void
} => {
  const [hits, setHits] = useState<readonly Hit[]>([])
  const [state, setState] = useState<"idle" | "busy" | "done" | "failed">("idle")
  const [attempt, setAttempt] = useState(0)
  useEffect(() => {
    if (query.length < MIN_QUERY) {
      setHits([])
      return setState("idle")
    }
    let isCurrent = true
    setState("busy")
    const timer = setTimeout(async () => {
      const found = await find(query)
      if (!isCurrent) return
      setState(found ? "done" : "failed")
      setHits(found ?? [])
    }, PAUSE_MS)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [query, attempt])
  return { hits, state, retry: () => setAttempt(attempt + 1) }
}
