/**
 * Executions of workflows: an order is run once, stops for approvals, goes on when they are given, and is answered once,
 * also when the runner is killed under it.
 */
import { z } from "zod"
import type { ChannelAddress } from "../../wire/channel.ts"
import { channelKey } from "../../wire/channel.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import type { Inbound } from "../../wire/frames/index.ts"
import { canonical } from "../../wire/workflow/canonical.ts"
import { compile } from "./compile.ts"
import { type Ending, MOST_OUTPUT, run, type StepRecord } from "./run.ts"
import { channelOf, type PerformStep } from "./steps.ts"
import type { Envelope, Execution, ExecutionStore, Order } from "./execution-store.ts"
import { asText } from "./template.ts"

export interface ExecutionsOptions {
  readonly store: ExecutionStore
  readonly perform: PerformStep
  /** A workflow that the session agent keeps, by its id. */
  readonly findWorkflow: (id: string) => Promise<unknown>
  /** Tells the session agent; what `persist` writes is stored together with it, or not at all. */
  readonly answer: (executionId: string, envelope: Envelope) => void
  readonly clock: Clock
  readonly newId: () => string
  readonly log: Log
}

type Asked = Omit<Inbound<"workflow-execute">, "type">

export interface Executions {
  /** An order of the session agent: it is answered by a frame, one that is no good too. */
  readonly take: (asked: Asked) => void
  /** An order of a shell; when whoever waits for it goes away, it is cancelled. */
  readonly execute: (asked: Asked, gone: AbortSignal) => Promise<Envelope>
  /** Cancels the execution whose channel this is; without one, all. Resolves when they have ended. */
  readonly stop: (scope: ChannelAddress | undefined, reason: string) => Promise<void>
  /** Ends what a killed runner has left half done; says which executions that were. */
  readonly recover: () => readonly string[]
  readonly settled: () => Promise<void>
  /** Writes what the answers tell of; called inside the transaction that stores them. */
  readonly persist: () => void
  readonly persisted: () => void
}

const DEFAULT_MAX_STEPS = 1000
/** Steps may say this much in all: an answer must fit through the link. */
const MOST_IN_ANSWER = 500_000

const runPayload = z.object({
  workflow: z.unknown().optional(),
  variables: z.record(z.string(), z.unknown()).optional(),
  runtime: z
    .object({
      attempt: z.int().min(1).optional(),
      idempotencyKey: z.string().min(1).optional(),
      policy: z.object({ maxSteps: z.int().min(1).optional() }).optional(),
    })
    .optional(),
})

/** Why an order is not carried out; nothing was run and nothing is changed. */
class Refused extends Error {
  override readonly name = "Refused"
}

type Ended = Execution & { readonly envelope: Envelope }

interface Live {
  readonly execution: Execution
  readonly stopping: AbortController
  readonly ended: Promise<Ended>
}

export const createExecutions = (options: ExecutionsOptions): Executions => {
  const { store, clock, log } = options
  const live = new Map<string, Live>()
  /** Ended or waiting, but not yet stored as that: their answers are on the way to the disk. */
  const unsaved = new Map<string, Execution>()
  const latest = (found: Execution | undefined) => found && (unsaved.get(found.id) ?? found)

  /** What an order means: a new run, one that goes on, or one that was asked for before. */
  const understand = (asked: Asked, origin: Execution["origin"]): Execution =>
    asked.payload.kind === "run" ? understandRun(asked, origin) : understandResume(asked, origin)

  const understandRun = (asked: Asked, origin: Execution["origin"]): Execution => {
    const parsed = runPayload.safeParse(asked.payload.payload)
    if (!parsed.success) {
      const { path = [], message = "" } = parsed.error.issues[0] ?? {}
      throw new Refused(`payload.${path.map(String).join(".")}: ${message}`)
    }
    const { workflow, variables = {}, runtime = {} } = parsed.data
    const { hash } = compile(workflow)
    if (asked.payload.workflowHash !== undefined && asked.payload.workflowHash !== hash)
      throw new Refused(`workflowHash: the workflow has ${hash}`)
    const key = runtime.idempotencyKey ?? asked.executionId
    const order: Order = {
      workflow,
      variables,
      maxSteps: runtime.policy?.maxSteps ?? DEFAULT_MAX_STEPS,
      attempt: runtime.attempt ?? 1,
      model: asked.model,
      modelPreferences: asked.modelPreferences,
    }
    const known = latest(store.byKey(key))
    if (known) {
      if (known.hash === hash && canonical(known.order.variables) === canonical(variables))
        return known
      throw new Refused("idempotencyKey: was used for another run")
    }
    const { executionId } = asked
    const id = options.newId()
    const made = {
      id,
      executionId,
      key,
      origin,
      hash,
      order,
      state: "running",
      approved: [],
    } as const
    store.save(made)
    log.info("execution.started", { executionId, workflowHash: hash })
    begin(made)
    return made
  }

  const understandResume = (
    { executionId, payload }: Asked,
    origin: Execution["origin"],
  ): Execution => {
    const found = latest(store.byExecution(executionId))
    if (!found?.approval) throw new Refused("no execution of that id has waited for approval here")
    if (payload.resumeToken !== found.approval.token)
      throw new Refused("resumeToken: is not the one that came with the approval")
    const { workflow } = payload.payload
    const hash =
      payload.workflowHash ?? (workflow === undefined ? found.hash : compile(workflow).hash)
    if (hash !== found.hash) throw new Refused(`workflowHash: the execution has ${found.hash}`)
    if (payload.decision === undefined) throw new Refused("decision: must be approve or deny")
    // Said twice: the first time counts.
    if (found.state !== "waiting") return found
    const { place } = found.approval
    log.info("execution.resumed", { executionId, stepId: place, decision: payload.decision })
    if (payload.decision === "deny") {
      const error = `the approval of ${place} was denied`
      const journal = new Map(journalOf(found))
      return finish({ ...found, origin }, journal, { status: "cancelled", error })
    }
    // Whoever says so is told of what comes of it.
    const going = {
      ...found,
      origin,
      state: "running",
      approved: [...found.approved, place],
    } as const
    unsaved.delete(found.id)
    store.save(going)
    begin(going)
    return going
  }

  const journalOf = ({ id }: Execution) =>
    store.journal(id).map((record) => [record.stepId, record] as const)

  const begin = (execution: Execution) => {
    const stopping = new AbortController()
    const ended = carryOut(execution, stopping.signal).finally(() => live.delete(execution.id))
    live.set(execution.id, { execution, stopping, ended })
  }

  const carryOut = async (execution: Execution, signal: AbortSignal): Promise<Ended> => {
    const { id, executionId, order } = execution
    const journal = new Map(journalOf(execution))
    const ending = await run({
      ...order,
      steps: compile(order.workflow).steps,
      approved: execution.approved,
      journal,
      signal,
      now: clock.now,
      perform: (task, place) => options.perform(execution, task, place, signal),
      findWorkflow: options.findWorkflow,
      note: (record) => {
        store.note(id, record)
        tellStep(executionId, record)
      },
    })
    return finish(execution, journal, ending)
  }

  const tellStep = (executionId: string, { stepId, status, error }: StepRecord) => {
    if (status === "running") log.info("step.started", { executionId, stepId })
    if (status === "completed") log.info("step.completed", { executionId, stepId })
    if (status === "failed" || status === "cancelled")
      log.warn("step.failed", { executionId, stepId, status, error })
  }

  const finish = (
    execution: Execution,
    journal: ReadonlyMap<string, StepRecord>,
    ending: Ending,
  ): Ended => {
    const { executionId, origin } = execution
    const token = options.newId()
    const envelope = envelopeOf(executionId, [...journal.values()], ending, token)
    const waits = ending.status === "needs_approval"
    if (waits) log.info("approval.required", { executionId, stepId: ending.stepId })
    else log.info("execution.finished", { executionId, status: ending.status })
    const ended: Ended = {
      ...execution,
      state: waits ? "waiting" : "ended",
      envelope,
      ...(waits && { approval: { token, place: ending.stepId } }),
    }
    if (origin === "shell") store.save(ended)
    else {
      unsaved.set(ended.id, ended)
      options.answer(executionId, envelope)
    }
    return ended
  }

  return {
    take: (asked) => {
      const { executionId } = asked
      const repeat = ({ envelope }: Ended) => {
        log.info("execution.repeated", { executionId })
        options.answer(executionId, { ...envelope, executionId })
      }
      try {
        const found = understand(asked, "link")
        const at = live.get(found.id)
        // Under way: its own answer is to come. The same key may have come under another name, which has none.
        if (at) return void (found.executionId !== executionId && at.ended.then(repeat))
        // Not yet stored means: ended by this very order, or its answer is on the way.
        if (hasEnded(found) && !unsaved.has(found.id)) repeat(found)
      } catch (error) {
        options.answer(executionId, refusal(executionId, error))
      }
    },
    execute: async (asked, gone) => {
      try {
        const found = understand(asked, "shell")
        const at = live.get(found.id)
        if (!at && hasEnded(found)) return found.envelope
        if (!at) throw new Refused("it is not running any more")
        const cancel = () => at.stopping.abort("whoever asked for it went away")
        gone.addEventListener("abort", cancel)
        const { envelope } = await at.ended.finally(() => gone.removeEventListener("abort", cancel))
        return envelope
      } catch (error) {
        return refusal(asked.executionId, error)
      }
    },
    stop: async (scope, reason) => {
      const meant = [...live.values()].filter(
        ({ execution }) =>
          scope === undefined || channelKey(channelOf(execution.executionId)) === channelKey(scope),
      )
      for (const { stopping } of meant) stopping.abort(reason)
      await Promise.all(meant.map(({ ended }) => ended))
    },
    recover: () =>
      store.running().map((execution) => {
        const journal = new Map(journalOf(execution))
        const error = "the runner was restarted while it ran; what was begun is not done again"
        for (const record of journal.values()) {
          if (record.status === "running")
            journal.set(record.stepId, { ...record, status: "failed", error })
        }
        finish(execution, journal, { status: "failed", error })
        return execution.executionId
      }),
    settled: async () => {
      while (live.size > 0) await Promise.all([...live.values()].map(({ ended }) => ended))
    },
    persist: () => {
      for (const execution of unsaved.values()) store.save(execution)
    },
    persisted: () => unsaved.clear(),
  }
}

const hasEnded = (execution: Execution): execution is Ended => execution.envelope !== undefined

const refusal = (executionId: string, error: unknown): Envelope => ({
  ok: false,
  status: "failed",
  executionId,
  error: describeError(error),
})

const envelopeOf = (
  executionId: string,
  records: readonly StepRecord[],
  ending: Ending,
  token: string,
): Envelope => ({
  ok: ending.status === "ok" || ending.status === "needs_approval",
  status: ending.status,
  executionId,
  steps: fitting(records).map((record) => ({ ...record })),
  ...("output" in ending && ending.output !== undefined && { output: shortened(ending.output) }),
  ...("error" in ending && { error: ending.error }),
  ...(ending.status === "needs_approval" && {
    requiresApproval: {
      stepId: ending.stepId,
      prompt: ending.prompt,
      items: [...ending.items],
      resumeToken: token,
    },
  }),
})

const shortened = (output: unknown): unknown => {
  const text = asText(output)
  return text.length > MOST_OUTPUT ? text.slice(0, MOST_OUTPUT) : output
}

/** Beyond what fits, steps are told without what they were given and what they gave. */
const fitting = (records: readonly StepRecord[]): readonly StepRecord[] => {
  let left = MOST_IN_ANSWER
  return records.map((record) => {
    left -= JSON.stringify(record).length
    if (left >= 0) return record
    const { input: _input, output: _output, ...rest } = record
    return rest
  })
}
