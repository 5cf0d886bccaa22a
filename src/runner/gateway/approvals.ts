/**
 * Operations that wait for a person's yes before they are carried out. The question is a permission at the session agent;
 * a tool waits for the reply, and a program may poll for it. No answer in time is a no.
 */
import type { Clock } from "../../lib/clock.ts"
import type { PermissionReply } from "../../wire/permission.ts"
import { ApiError } from "./api-error.ts"

export interface ApprovalQuestion {
  readonly permissionId: string
  /** The name of the operation. */
  readonly action: string
  readonly input: Readonly<Record<string, unknown>>
  readonly sessionId: string | undefined
  /** How long the operation waits for the reply. */
  readonly waitMs: number
}

type Asked = Omit<ApprovalQuestion, "permissionId" | "waitMs">

export interface ApprovalsOptions {
  /** Names of the operations that need an approval. */
  readonly actions: ReadonlySet<string>
  /** Asks the person. Returns the prompt that it belongs to, if there is one. */
  readonly ask: (question: ApprovalQuestion) => string | undefined
  readonly newId: () => string
  readonly clock: Clock
}

export interface Approvals {
  readonly needs: (action: string) => boolean
  /** Resolves when a person has allowed it; rejects with an ApiError otherwise. */
  readonly wait: (question: Asked) => Promise<void>
  /** The same in the background: `run` is carried out after the yes. Returns the id to poll with. */
  readonly begin: (question: Asked, run: (allowed: Promise<void>) => Promise<unknown>) => string
  /** Undefined for an unknown id. A result is kept for some minutes. */
  readonly poll: (id: string) => { readonly result?: unknown } | undefined
  /** False when no operation waits for this permission. */
  readonly reply: (permissionId: string, reply: PermissionReply) => boolean
  /** A prompt has ended: what it asked for is not carried out any more. */
  readonly promptEnded: (messageId: string | undefined) => void
}

interface Open {
  readonly action: string
  readonly messageId: string | undefined
  readonly decide: (refusal?: ApiError) => void
}

const MOST_OPEN = 20
const ANSWER_MS = 15 * 60_000
const KEPT_MS = 10 * 60_000

export const createApprovals = ({ actions, ask, newId, clock }: ApprovalsOptions): Approvals => {
  const open = new Map<string, Open>()
  const alwaysAllowed = new Set<string>()
  const polled = new Map<string, { readonly result?: unknown }>()

  const start = (question: Asked) => {
    if (open.size >= MOST_OPEN)
      throw new ApiError(
        429,
        "too-many-approvals",
        `${MOST_OPEN} actions wait for an approval already: wait until one is answered`,
      )
    const permissionId = `action-${newId()}`
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const cancel = clock.after(ANSWER_MS, () =>
      open.get(permissionId)?.decide(denied("there was no answer within 15 minutes")),
    )
    open.set(permissionId, {
      action: question.action,
      messageId: ask({ ...question, permissionId, waitMs: ANSWER_MS }),
      decide: (refusal) => {
        cancel()
        open.delete(permissionId)
        if (refusal) reject(refusal)
        else resolve()
      },
    })
    return { permissionId, promise }
  }

  return {
    needs: (action) => actions.has(action) && !alwaysAllowed.has(action),
    wait: async (question) => start(question).promise,
    begin: (question, run) => {
      const { permissionId, promise } = start(question)
      polled.set(permissionId, {})
      const finish = async () => {
        const result = await run(promise)
        polled.set(permissionId, { result })
        clock.after(KEPT_MS, () => void polled.delete(permissionId))
      }
      void finish()
      return permissionId
    },
    poll: (id) => polled.get(id),
    reply: (permissionId, reply) => {
      const found = open.get(permissionId)
      if (found && reply === "always") alwaysAllowed.add(found.action)
      found?.decide(reply === "reject" ? denied("a person has denied it") : undefined)
      return found !== undefined
    },
    promptEnded: (messageId) => {
      for (const one of open.values())
        if (one.messageId !== undefined && one.messageId === messageId)
          one.decide(denied("the turn has ended"))
    },
  }
}

const denied = (why: string): ApiError =>
  new ApiError(403, "not-approved", `the action was not carried out: ${why}`)
