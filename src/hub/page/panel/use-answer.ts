/** A request whose result comes later, as an `answer` event: ask, wait, read. */
import { useState } from "preact/hooks"
import type { Request } from "../client/api.ts"
import { request, view } from "../client/store.ts"

export interface Asked {
  readonly isWaiting: boolean
  readonly since: number | undefined
  readonly problem: string | undefined
  readonly result: unknown
  readonly ask: () => void
}

export const useAnswer = (message: Request): Asked => {
  const [id, setId] = useState<string | undefined>(undefined)
  const [since, setSince] = useState<number | undefined>(undefined)
  const [refusal, setRefusal] = useState<string | undefined>(undefined)
  const answer = id === undefined ? undefined : view.value.answers.get(id)
  const ask = async () => {
    setRefusal(undefined)
    setSince(Date.now())
    const reply = await request(message)
    if (!reply.ok) {
      setRefusal(reply.error.message)
      setSince(undefined)
      return
    }
    setId(String(reply["requestId"]))
  }
  const isDone = answer !== undefined && answer.status !== "open"
  const error = (answer?.result as { readonly error?: unknown } | undefined)?.error
  const problem =
    refusal ??
    (answer?.status === "expired" ? answer.status : typeof error === "string" ? error : undefined)
  return {
    isWaiting: since !== undefined && refusal === undefined && !isDone,
    since,
    problem,
    result: isDone ? answer.result : undefined,
    ask: () => void ask(),
  }
}
