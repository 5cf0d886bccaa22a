/** Performs the steps of a workflow: commands in the workspace and turns of the agent. Returns the output or throws. */
import type { JobReport } from "../channels/job-waiters.ts"
import type { Channels } from "../channels/channels.ts"
import type { Clock } from "../../lib/clock.ts"
import type { OutboundFrame } from "../../wire/frames/index.ts"
import type { StepOf } from "../../wire/workflow/definition.ts"
import { asText } from "./template.ts"
import type { Task } from "./run.ts"
import type { Execution } from "./execution-store.ts"

export interface StepPorts {
  readonly channels: Pick<Channels, "take" | "run" | "stop">
  readonly send: (frame: OutboundFrame) => void
  /** Runs a command as the agent's user; throws if it cannot start or times out. */
  readonly bash: (
    command: Pick<StepOf<"bash">, "command" | "cwd" | "timeoutMs">,
    signal: AbortSignal,
  ) => Promise<{ readonly exitCode: number; readonly stdout: string }>
  readonly clock: Clock
}

export type PerformStep = (
  execution: Execution,
  task: Task,
  place: string,
  signal: AbortSignal,
) => Promise<unknown>

/** Each execution has a channel of its own; its steps share the conversation. */
export const channelOf = (executionId: string) => ({
  channelType: "workflow",
  channelId: executionId,
})

/** Characters of a failed command's output that are kept in the error. */
const TAIL = 2000

export const createSteps =
  (ports: StepPorts): PerformStep =>
  async (execution, task, place, signal) => {
    switch (task.type) {
      case "bash":
        return runCommand(ports, task, signal)
      case "agent":
        return (await ask(ports, execution, place, signal, goalOf(task), task.model)).text
      case "tool":
        return resultOf(task, await ask(ports, execution, place, signal, toolPrompt(task)))
      case "agent_message":
        if (task.awaitResponse) return sendAndAwaitReply(ports, execution, task, place, signal)
        return deliver(ports, execution, task, place)
    }
  }

const runCommand = async (ports: StepPorts, task: StepOf<"bash">, signal: AbortSignal) => {
  const { exitCode, stdout } = await ports.bash(task, signal)
  if (signal.aborted) throw new Error(asText(signal.reason))
  const output = stdout.replace(/\n+$/, "")
  if (exitCode !== 0) throw new Error(`exit code ${exitCode}: ${output.slice(-TAIL)}`)
  return output
}

const goalOf = ({ goal, context }: StepOf<"agent">): string =>
  context ? `${goal}\n\nContext:\n${context}` : goal

const toolPrompt = ({ tool, arguments: given }: StepOf<"tool">): string =>
  `Call the tool \`${tool}\` once, with exactly these arguments, and do nothing else:\n\n${JSON.stringify(given, undefined, 2)}`

/** The result of the recorded tool call; the model's text about it does not count. */
const resultOf = ({ tool }: StepOf<"tool">, { tools }: JobReport): string => {
  const calls = tools.filter((call) => call.tool === tool)
  const made = calls.findLast((call) => call.error === undefined) ?? calls.at(-1)
  if (made === undefined) throw new Error(`the agent did not call the tool ${tool}`)
  if (made.error !== undefined) throw new Error(`${tool}: ${made.error}`)
  return made.result ?? ""
}

const ask = async (
  { channels }: StepPorts,
  { id, executionId, order }: Execution,
  place: string,
  signal: AbortSignal,
  content: string,
  model = order.model,
  address = channelOf(executionId),
): Promise<JobReport> => {
  const stop = () => void channels.stop(address, asText(signal.reason))
  signal.addEventListener("abort", stop)
  try {
    const report = await channels.run({
      type: "prompt",
      messageId: `${id}/${place}`,
      content,
      ...address,
      ...(model !== undefined && { model }),
      ...(order.modelPreferences && { modelPreferences: [...order.modelPreferences] }),
    })
    const { outcome } = report
    if (outcome.type === "error") throw new Error(outcome.error)
    if (outcome.type === "canceled") throw new Error(`the turn was stopped: ${outcome.reason}`)
    return report
  } finally {
    signal.removeEventListener("abort", stop)
  }
}

const sendAndAwaitReply = async (
  ports: StepPorts,
  execution: Execution,
  task: StepOf<"agent_message">,
  place: string,
  signal: AbortSignal,
): Promise<string> => {
  const own = channelOf(`${execution.executionId}/${place}`)
  const late = new AbortController()
  const { awaitTimeoutMs: limit } = task
  const cancel =
    limit === undefined
      ? () => {}
      : ports.clock.after(limit, () => late.abort(`no reply within ${limit} ms`))
  try {
    const either = AbortSignal.any([signal, late.signal])
    return (await ask(ports, execution, place, either, task.content, undefined, own)).text
  } finally {
    cancel()
  }
}

/** Sends a prompt to the session's main channel, and shows it to clients as a user message. */
const deliver = (
  { channels, send }: StepPorts,
  { id }: Execution,
  task: StepOf<"agent_message">,
  place: string,
): string => {
  const { content, interrupt } = task
  send({ type: "workflow-chat-message", role: "user", content })
  channels.take({
    type: "prompt",
    messageId: `${id}/${place}`,
    content,
    ...(interrupt && { steer: true }),
  })
  return "delivered"
}
