/**
 * Executions of workflows: an order runs once, pauses for approvals, resumes, and gets one result, even if the runner is
 * killed in between.
 */
import { z } from "zod"
import type { ChannelAddress } from "../../wire/channel.ts"
import { channelKey } from "../../wire/channel.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import type { Inbound } from "../../wire/frames/index.ts"
import { canonical } from "../../wire/workflow/canonical.ts"
import { compile } from "./compile.ts"
import { type Ending, MAX_OUTPUT, run, type StepRecord } from "./run.ts"
import { channelOf, type PerformStep } from "./steps.ts"
import type { Envelope, Execution, ExecutionStore, Order } from "./execution-store.ts"
import { asText } from "./template.ts"

export interface ExecutionsOptions {
  readonly store: ExecutionStore
  readonly perform: PerformStep
  /** Gets a workflow that the session agent stores, by id. */
  readonly findWorkflow: (id: string) => Promise<unknown>
  /** Sends the result to the session agent. `persist` writes in the same transaction. */
  readonly answer: (executionId: string, envelope: Envelope) => void
  /** Reports that the execution is stored and runs. */
  readonly accepted: (executionId: string) => void
  readonly clock: Clock
  readonly newId: () => string
  readonly log: Log
}

type Asked = Omit<Inbound<"workflow-execute">, "type">

export interface Executions {
  /** Handles an order of the session agent. The result, or the refusal, is sent as a frame. */
  readonly take: (asked: Asked) => void
  /** Handles an order of a shell; cancelled when the shell disconnects. */
  readonly execute: (asked: Asked, disconnected: AbortSignal) => Promise<Envelope>
  /** The token that continues a waiting execution. It must not reach the agent. */
  readonly approvalToken: (executionId: string) => string | undefined
  /** Cancels the execution of this channel; without a channel, all. Resolves when they have ended. */
  readonly stop: (scope: ChannelAddress | undefined, reason: string) => Promise<void>
  /** Fails the executions that a killed runner left running; returns their ids. */
  readonly recover: () => readonly string[]
  readonly settled: () => Promise<void>
  /** Stores ended executions; called inside the transaction that stores their result frames. */
  readonly persist: () => void
  readonly persisted: () => void
}

const DEFAULT_MAX_STEPS = 1000
/** Limit for all step records of a result, in characters: the frame must fit through the link. */
const MAX_RESULT_LENGTH = 500_000

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

/** An order that is rejected: no step was run and nothing was changed. */
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
  /** Ended or waiting executions whose results are not stored yet. */
  const unsaved = new Map<string, Execution>()
  const latest = (found: Execution | undefined) => found && (unsaved.get(found.id) ?? found)

  /** The execution that an order starts, resumes, or has started before. */
  const findOrStart = (asked: Asked, origin: Execution["origin"]): Execution =>
    asked.payload.kind === "run" ? findOrStartRun(asked, origin) : findOrResume(asked, origin)

  const findOrStartRun = (asked: Asked, origin: Execution["origin"]): Execution => {
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
      throw new Refused("idempotencyKey: was used for a different run")
    }
    if (asked.delivered === true)
      throw new Refused(
        "the run was started before and its journal is lost with the sandbox's disk: steps that had started are not repeated; start a new run if that is safe",
      )
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

  const findOrResume = (
    { executionId, payload }: Asked,
    origin: Execution["origin"],
  ): Execution => {
    const found = latest(store.byExecution(executionId))
    if (!found?.approval)
      throw new Refused("executionId: no execution with this id has waited for approval")
    if (payload.resumeToken !== found.approval.token)
      throw new Refused("resumeToken: does not match the approval")
    const { workflow } = payload.payload
    const hash =
      payload.workflowHash ?? (workflow === undefined ? found.hash : compile(workflow).hash)
    if (hash !== found.hash) throw new Refused(`workflowHash: the execution has ${found.hash}`)
    if (payload.decision === undefined) throw new Refused("decision: must be approve or deny")
    // A repeated decision has no effect.
    if (found.state !== "waiting") return found
    const { place } = found.approval
    log.info("execution.resumed", { executionId, stepId: place, decision: payload.decision })
    if (payload.decision === "deny") {
      const error = `the approval of ${place} was denied`
      const journal = new Map(journalOf(found))
      return finish({ ...found, origin }, journal, { status: "cancelled", error })
    }
    // The result goes to the caller that resumed it.
    const resumed = {
      ...found,
      origin,
      state: "running",
      approved: [...found.approved, place],
    } as const
    unsaved.delete(found.id)
    store.save(resumed)
    begin(resumed)
    return resumed
  }

  const journalOf = ({ id }: Execution) =>
    store.journal(id).map((record) => [record.stepId, record] as const)

  const begin = (execution: Execution) => {
    const stopping = new AbortController()
    const ended = runSteps(execution, stopping.signal).finally(() => live.delete(execution.id))
    live.set(execution.id, { execution, stopping, ended })
    if (execution.origin === "link") options.accepted(execution.executionId)
  }

  const runSteps = async (execution: Execution, signal: AbortSignal): Promise<Ended> => {
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
        logStep(executionId, record)
      },
    })
    return finish(execution, journal, ending)
  }

  const logStep = (executionId: string, { stepId, status, error }: StepRecord) => {
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
      const sendAgain = ({ envelope }: Ended) => {
        log.info("execution.repeated", { executionId })
        options.answer(executionId, { ...envelope, executionId })
      }
      try {
        const found = findOrStart(asked, "link")
        const at = live.get(found.id)
        // Running: its own result will follow. A repeated key with another execution id needs a result of its own.
        if (at) return void (found.executionId !== executionId && at.ended.then(sendAgain))
        // If it is not stored yet, its result is being sent already.
        if (hasEnded(found) && !unsaved.has(found.id)) sendAgain(found)
      } catch (error) {
        options.answer(executionId, refusal(executionId, error))
      }
    },
    execute: async (asked, disconnected) => {
      try {
        const found = findOrStart(asked, "shell")
        const at = live.get(found.id)
        if (!at && hasEnded(found)) return found.envelope
        if (!at) throw new Refused("the execution is no longer running")
        const cancel = () => at.stopping.abort("the caller has disconnected")
        disconnected.addEventListener("abort", cancel)
        const { envelope } = await at.ended.finally(() =>
          disconnected.removeEventListener("abort", cancel),
        )
        return envelope
      } catch (error) {
        return refusal(asked.executionId, error)
      }
    },
    approvalToken: (executionId) => latest(store.byExecution(executionId))?.approval?.token,
    stop: async (scope, reason) => {
      const matching = [...live.values()].filter(
        ({ execution }) =>
          scope === undefined || channelKey(channelOf(execution.executionId)) === channelKey(scope),
      )
      for (const { stopping } of matching) stopping.abort(reason)
      await Promise.all(matching.map(({ ended }) => ended))
    },
    recover: () =>
      store.running().map((execution) => {
        const journal = new Map(journalOf(execution))
        const error =
          "the runner was restarted during the run; steps that had started are not repeated"
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
  steps: withinLimit(records).map((record) => ({ ...record })),
  ...("output" in ending && ending.output !== undefined && { output: truncated(ending.output) }),
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

const truncated = (output: unknown): unknown => {
  const text = asText(output)
  return text.length > MAX_OUTPUT ? text.slice(0, MAX_OUTPUT) : output
}

/** Beyond the limit, records are sent without input and output. */
const withinLimit = (records: readonly StepRecord[]): readonly StepRecord[] => {
  let left = MAX_RESULT_LENGTH
  return records.map((record) => {
    left -= JSON.stringify(record).length
    if (left >= 0) return record
    const { input: _input, output: _output, ...rest } = record
    return rest
  })
}
