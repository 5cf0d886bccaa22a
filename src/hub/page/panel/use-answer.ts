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

const WAKE_TRIES = 30
const WAKE_MS = 1000

const isAsleep = (refusal: Refusal | undefined): boolean => refusal?.code === "no-runner"

export const useAnswer = (message: Request): Asked => {
  const [id, setId] = useState<string | undefined>(undefined)
  const [since, setSince] = useState<number | undefined>(undefined)
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined)
  const answer = id === undefined ? undefined : view.value.answers.get(id)
  /** Sends the request; the reason if it was refused. */
  const send = async (): Promise<Refusal | undefined> => {
    const reply = await request(message)
    if (!reply.ok) return reply.error
    setId(String(reply["requestId"]))
    return undefined
  }
  const begin = () => {
    setRefusal(undefined)
    setSince(Date.now())
  }
  const finish = (refused: Refusal | undefined) => {
    if (!refused) return
    setRefusal(refused)
    setSince(undefined)
  }
  const ask = async () => {
    begin()
    finish(await send())
  }
  const askAgain = async () => {
    const sleeps = isAsleep(refusal)
    // The former answer is not shown while the next one is made.
    setId(undefined)
    begin()
    if (sleeps) await wakeSandbox(route.value.session)
    let refused = await send()
    // A sandbox that was woken connects a moment later.
    for (let tries = 0; sleeps && isAsleep(refused) && tries < WAKE_TRIES; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, WAKE_MS))
      refused = await send()
    }
    finish(refused)
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
