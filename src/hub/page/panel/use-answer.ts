/** A request whose result comes later, as an `answer` event: ask, wait, read. */
import { useState } from "preact/hooks"
import { type Request, wakeSandbox } from "../client/api.ts"
import { route } from "../client/navigation.ts"
import { request, view } from "../client/store.ts"

export interface Asked {
  readonly isWaiting: boolean
  readonly since: number | undefined
  readonly problem: string | undefined
  readonly result: unknown
  readonly ask: () => void
  /** A person asks once more: a sandbox that sleeps is woken first. */
  readonly askAgain: () => void
}

interface Refusal {
  readonly code: string
  readonly message: string
}

export const useAnswer = (message: Request): Asked => {
  const [id, setId] = useState<string | undefined>(undefined)
  const [since, setSince] = useState<number | undefined>(undefined)
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined)
  const answer = id === undefined ? undefined : view.value.answers.get(id)
  const ask = async () => {
    setRefusal(undefined)
    setSince(Date.now())
    const reply = await request(message)
    if (!reply.ok) {
      setRefusal(reply.error)
      setSince(undefined)
      return
    }
    setId(String(reply["requestId"]))
  }
  const askAgain = async () => {
    const sleeps = refusal?.code === "no-runner"
    setRefusal(undefined)
    setSince(Date.now())
    if (sleeps) await wakeSandbox(route.value.session)
    await ask()
  }
  const isDone = answer !== undefined && answer.status !== "open"
  const error = (answer?.result as { readonly error?: unknown } | undefined)?.error
  const problem =
    refusal?.message ??
    (answer?.status === "expired" ? answer.status : typeof error === "string" ? error : undefined)
  return {
    isWaiting: since !== undefined && refusal === undefined && !isDone,
    since,
    problem,
    result: isDone ? answer.result : undefined,
    ask: () => void ask(),
    askAgain: () => void askAgain(),
  }
}
