/** A chat: what a person types is a prompt or the answer to a question; replies are shown as they stream in. */
import { type AgentState, isAgentReady } from "./agent-ready.ts"
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import type { Clock } from "../lib/clock.ts"
import type { Option } from "../wire/clients/conversation.ts"
import { createChatView } from "./chat-view.ts"
import type { HistoryFile } from "./chat/history-file.ts"
import {
  describePermission,
  parsePermissionAnswer,
  PERMISSION_HELP,
} from "./chat/permission-answer.ts"
import { createTerminalLine } from "./chat/terminal-line.ts"
import { visibleText } from "../lib/visible-text.ts"
import { connectHub, type HubClient, type HubEvent } from "./hub-client.ts"

export interface ChatOptions {
  readonly input: Readable
  readonly output: Writable
  readonly interactive: boolean
  readonly clock: Clock
  readonly hub: { readonly url: string; readonly token: string }
  readonly session: string
  readonly model?: string | undefined
  /** Sends this one prompt and ends after its reply. Without it, a conversation. */
  readonly text?: string | undefined
  /** Prints the events as JSON, one object per line, instead of rendered text. */
  readonly json?: boolean
  /** The chat ends when the session agent has been unreachable for this long. */
  readonly patienceMs?: number
  /** The text above the first prompt, shown when the agent is ready. */
  readonly greeting?: () => string
  /** The lines typed earlier in this directory, for a terminal. */
  readonly history?: HistoryFile
  /** Input from a pipe: each line is a prompt, or the whole input is one. */
  readonly piped?: "lines" | "one prompt"
}

export interface Chat {
  /** The exit code: 0 success, 1 the last turn failed or the session agent is gone, 2 refused, 130 cancelled. */
  readonly finished: Promise<number>
  /** Ctrl-C: cancels the running turn; without one, ends the chat. */
  readonly interrupt: () => void
  readonly close: () => void
}

interface Question {
  readonly id: string
  readonly status: string
  readonly kind: string
  readonly executionId?: string
  readonly text?: string
  readonly title?: string
  readonly patterns?: readonly string[]
  readonly options?: readonly Option[]
}

const APPROVAL_HELP = "y: approve, n: deny; any other text is a prompt"
const PATIENCE_MS = 60_000
/** After this long without an event the terminal shows that the agent is still at work. */
const SLOW_MS = 3000

export const startChat = (options: ChatOptions): Chat => {
  const { input, output, interactive, text: single, json = false } = options
  const finished = Promise.withResolvers<number>()
  /** Ids of the prompts that this chat has sent. */
  const mine = new Set<string>()
  const view = createChatView({
    write: (text) => void (json ? undefined : terminal ? terminal.write(text) : output.write(text)),
    colours: interactive,
    ...(single !== undefined && {
      only: (id: string | undefined) => id !== undefined && mine.has(id),
    }),
  })
  const questions: Question[] = []
  /** What workflows wait for. They hold up no prompt, and only a person at a terminal decides about them here. */
  const approvals: Question[] = []
  /** Prompts of this chat that are queued or running. */
  const open = new Set<string>()
  /** Lines from a pipe that are not sent yet. */
  const script: string[] = []
  /** Prompts that were sent and have no id yet. */
  let asking = 0
  let code = 0
  let ended = false
  let ready = false
  let lastEvent = options.clock.now()
  let stopTicking = () => {}

  const next = () => {
    if (interactive || asking > 0 || (open.size > 0 && questions.length === 0)) return
    const typed = script.shift()
    if (typed !== undefined) return take(typed)
    // The input has ended, so the question cannot be answered.
    if (ended && questions.length > 0) interrupt()
  }
  const rest = () => {
    if (open.size > 0 || asking > 0) return
    if (script.length > 0) return next()
    if (ended || single !== undefined) return finish(code)
    if (ready) terminal?.open()
  }
  const finish = (result: number) => {
    hub.close()
    stopTicking()
    terminal?.close()
    lines?.close()
    finished.resolve(result)
  }

  const onQueue = (queue: readonly { id: string }[]) => {
    for (const id of open) if (!queue.some((item) => item.id === id)) open.delete(id)
    rest()
  }
  const onQuestion = (question: Question) => {
    const isApproval = question.kind === "approval"
    if (isApproval && !interactive) return
    const list = isApproval ? approvals : questions
    const known = list.findIndex(({ id }) => id === question.id)
    if (question.status !== "open") return void (known === -1 ? undefined : list.splice(known, 1))
    if (known !== -1) return
    list.push(question)
    view.line(describeQuestion(question))
    if (ready) terminal?.open()
    next()
  }
  const describeQuestion = ({ kind, text, title, patterns, options: choices }: Question): string =>
    kind === "approval"
      ? `${view.style("33", `? A workflow waits for your approval: ${visibleText(text ?? "")}`)}\n  ${APPROVAL_HELP}`
      : kind === "permission"
        ? `${view.style("33", `? ${describePermission(title ?? "", patterns ?? [])}`)}\n  ${PERMISSION_HELP}`
        : [
            view.style("33", `? ${visibleText(text ?? title ?? "")}`),
            ...(choices ?? []).map(
              ({ label, description }, index) =>
                `  ${index + 1}. ${visibleText(label)}${description === undefined || description === label ? "" : view.dim(` - ${visibleText(description)}`)}`,
            ),
          ].join("\n")
  const onReady = (agent: AgentState | undefined) => {
    if (!isAgentReady(agent) || ready) return
    ready = true
    if (options.greeting) view.line(options.greeting())
    rest()
  }

  const onEvent = (event: HubEvent) => {
    if (json) output.write(`${JSON.stringify(event)}\n`)
    lastEvent = options.clock.now()
    view.show(event)
    switch (event.type) {
      case "snapshot": {
        onReady((event["state"] as { agent?: AgentState }).agent)
        for (const question of event["interactions"] as Question[]) onQuestion(question)
        return onQueue(event["queue"] as { id: string }[])
      }
      case "queue":
        return onQueue(event["queue"] as { id: string }[])
      case "interaction":
        return onQuestion(event["interaction"] as Question)
      case "message": {
        const { promptId, role, status } = event["message"] as {
          promptId?: string
          role: string
          status: string
        }
        if (promptId === undefined || !mine.has(promptId) || role === "user") return
        code = status === "error" ? 1 : status === "canceled" ? 130 : 0
        return
      }
      case "state":
        return event["name"] === "agent" ? onReady(event["value"] as AgentState) : undefined
      default:
        return
    }
  }

  const prompt = async (content: string) => {
    asking += 1
    const reply = await hub.ask({
      type: "prompt",
      content,
      ...(options.model && { model: options.model }),
    })
    asking -= 1
    if (reply["ok"] !== true) {
      code = 1
      view.line(view.style("31", `✗ ${(reply["error"] as { message: string }).message}`))
      return rest()
    }
    mine.add(String(reply["messageId"]))
    open.add(String(reply["messageId"]))
  }

  const hub: HubClient = connectHub({
    ...options.hub,
    session: options.session,
    clock: options.clock,
    onEvent,
    patienceMs: options.patienceMs ?? PATIENCE_MS,
    onGone: () => {
      view.line(view.style("31", "✗ the session agent is gone; open prompts stay in its queue"))
      finish(1)
    },
    onRefused: (status) => {
      view.line(
        view.style(
          "31",
          `✗ the session agent refused the chat (HTTP ${status}): does session ${options.session} exist?`,
        ),
      )
      finish(2)
    },
  })

  const take = (typed: string): void => {
    const text = typed.trim()
    const [question] = questions
    if (question?.kind === "permission") {
      const reply = parsePermissionAnswer(text)
      // Any other text is neither an answer nor a prompt: the question stays.
      if (reply === undefined) return interactive ? view.line(PERMISSION_HELP) : interrupt()
      questions.shift()
      return void answer({ type: "permission", id: question.id, reply })
    }
    if (question) {
      questions.shift()
      const choice = question.options?.[Number(text) - 1]?.label
      return void answer({ type: "answer", id: question.id, answer: choice ?? text })
    }
    const [approval] = approvals
    const decision = approval && parsePermissionAnswer(text)
    if (decision !== undefined) {
      approvals.shift()
      const approve = decision !== "reject"
      return void answer({ type: "approve-execution", executionId: approval?.executionId, approve })
    }
    if (text === "") return rest()
    void prompt(text)
  }
  const answer = async (message: { readonly type: string; readonly [field: string]: unknown }) => {
    const reply = await hub.ask(message)
    if (reply["ok"] === true) return
    view.line(view.style("31", `✗ ${visibleText((reply["error"] as { message: string }).message)}`))
  }
  /** Cancels the running turn; without one, ends the chat. */
  const interrupt = () =>
    open.size + asking === 0 ? finish(code) : void hub.ask({ type: "abort", queued: true })
  const onEnd = () => {
    ended = true
    if (single === undefined && (ready || open.size + asking === 0)) rest()
    next()
  }
  const terminal = interactive
    ? createTerminalLine({
        input,
        output,
        prompt: view.style("36", "> "),
        history: options.history?.read() ?? [],
        onHistory: (history) => options.history?.write(history),
        isAnswer: () => questions.length > 0,
        onSubmit: take,
        onInterrupt: interrupt,
        onEnd,
      })
    : undefined
  const lines = terminal
    ? undefined
    : createInterface({ input, terminal: false, crlfDelay: Infinity })
  /** Lines that belong to the next prompt. */
  const parts: string[] = []
  const sendParts = () => {
    // Lines from a pipe are sent one at a time, so that the next line can answer a question.
    if (parts.length > 0) script.push(parts.splice(0).join("\n"))
  }
  lines?.on("line", (typed) => {
    const isWhole = options.piped === "one prompt"
    const continues = typed.endsWith("\\") && !isWhole
    parts.push(continues ? typed.slice(0, -1) : typed)
    if (isWhole || continues) return
    sendParts()
    next()
  })
  lines?.on("close", () => {
    sendParts()
    onEnd()
  })
  const tick = () => {
    const silent = Math.round((options.clock.now() - lastEvent) / 1000)
    const isSlow = open.size > 0 && questions.length === 0 && silent * 1000 >= SLOW_MS
    terminal?.setStatus(isSlow ? view.dim(`  waiting for the agent, ${silent} s`) : "")
    stopTicking = options.clock.after(1000, tick)
  }
  if (terminal) tick()
  if (single !== undefined) void prompt(single)

  return { finished: finished.promise, interrupt, close: () => finish(code) }
}
