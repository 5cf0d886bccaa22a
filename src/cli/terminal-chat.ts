/** A chat in the terminal: each line is a prompt or the answer to a question; replies are shown as they stream in. */
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import type { Clock } from "../lib/clock.ts"
import { createChatView } from "./chat-view.ts"
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
  readonly text?: string
  readonly title?: string
  readonly options?: readonly string[]
}

const PATIENCE_MS = 60_000

export const startChat = (options: ChatOptions): Chat => {
  const { input, output, interactive, text: single, json = false } = options
  const finished = Promise.withResolvers<number>()
  /** Ids of the prompts that this chat has sent. */
  const mine = new Set<string>()
  const view = createChatView({
    write: (text) => void (json ? undefined : output.write(text)),
    colours: interactive,
    ...(single !== undefined && {
      only: (id: string | undefined) => id !== undefined && mine.has(id),
    }),
  })
  const lines = createInterface({
    input,
    output,
    terminal: interactive,
    prompt: view.style("36", "> "),
  })
  const questions: Question[] = []
  /** Prompts of this chat that are queued or running. */
  const open = new Set<string>()
  /** Lines from a pipe that are not sent yet. */
  const script: string[] = []
  /** Prompts that were sent and have no id yet. */
  let asking = 0
  let code = 0
  let ended = false
  let ready = false

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
    if (interactive && ready) lines.prompt()
  }
  const finish = (result: number) => {
    hub.close()
    lines.close()
    finished.resolve(result)
  }

  const onQueue = (queue: readonly { id: string }[]) => {
    for (const id of open) if (!queue.some((item) => item.id === id)) open.delete(id)
    rest()
  }
  const onQuestion = (question: Question) => {
    const known = questions.findIndex(({ id }) => id === question.id)
    if (question.status !== "open")
      return void (known === -1 ? undefined : questions.splice(known, 1))
    if (known !== -1) return
    questions.push(question)
    const choices = (question.options ?? []).map((option, index) => `  ${index + 1}. ${option}`)
    const decide = question.kind === "permission" ? ["  once, always or reject?"] : []
    view.line(
      [view.style("33", `? ${question.text ?? question.title ?? ""}`), ...choices, ...decide].join(
        "\n",
      ),
    )
    if (interactive) lines.prompt()
    else next()
  }
  const onReady = (agent: { status?: string } | undefined) => {
    if (agent?.status !== "idle" || ready) return
    ready = true
    if (options.greeting) view.line(options.greeting())
    rest()
  }

  const onEvent = (event: HubEvent) => {
    if (json) output.write(`${JSON.stringify(event)}\n`)
    view.show(event)
    switch (event.type) {
      case "snapshot": {
        onReady((event["state"] as { agent?: { status?: string } }).agent)
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
        return event["name"] === "agent"
          ? onReady(event["value"] as { status?: string })
          : undefined
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
    const question = questions.shift()
    if (question?.kind === "permission")
      return void hub.ask({ type: "permission", id: question.id, reply: text })
    if (question) {
      const choice = question.options?.[Number(text) - 1]
      return void hub.ask({ type: "answer", id: question.id, answer: choice ?? text })
    }
    if (text === "") return rest()
    void prompt(text)
  }
  lines.on("line", (typed) => {
    // A user may type ahead. Lines from a pipe are sent one at a time, so that the next line can answer a question.
    if (interactive) return take(typed)
    script.push(typed)
    next()
  })
  const interrupt = () =>
    open.size + asking === 0 ? finish(code) : void hub.ask({ type: "abort", queued: true })
  lines.on("SIGINT", interrupt)
  lines.on("close", () => {
    ended = true
    if (single === undefined && (ready || open.size + asking === 0)) rest()
    next()
  })
  if (single !== undefined) void prompt(single)

  return { finished: finished.promise, interrupt, close: () => finish(code) }
}
