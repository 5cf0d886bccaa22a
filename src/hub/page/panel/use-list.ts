/** A list that is read once from the hub: loading, rows, or the reason why not. */
import { useEffect, useState } from "preact/hooks"
import { request } from "../client/store.ts"

export interface ListState<Row> {
  readonly rows: readonly Row[] | undefined
  readonly problem: string | undefined
  readonly reload: () => void
}

export const useList = <Row>(verb: "tasks" | "memories"): ListState<Row> => {
  const [rows, setRows] = useState<readonly Row[] | undefined>(undefined)
  const [problem, setProblem] = useState<string | undefined>(undefined)
  const load = async () => {
    setProblem(undefined)
    const reply = await request({ type: verb })
    if (!reply.ok) return setProblem(reply.error.message)
    const list = reply[verb]
    setRows(Array.isArray(list) ? (list as readonly Row[]) : [])
  }
  useEffect(() => void load(), [])
  return { rows, problem, reload: () => void load() }
}
