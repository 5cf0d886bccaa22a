/** The commands of the demo model and its reply to a conversation. Pure. */
import { isAbsolute, join } from "node:path"
import { isSummaryRequest, isTitleRequest, titleOf } from "./opencode-requests.ts"
import { shorten, withoutAttribution, withoutReminders } from "./excerpt.ts"
import { httpError, reasoning, type Reply, reply, type StreamedReply, text, tool } from "./reply.ts"
import { type Conversation, lastUserText, textOf } from "./request.ts"

export function replyTo(conversation: Conversation): Reply {
  if (isTitleRequest(conversation)) return text(titleOf(conversation))
  if (isSummaryRequest(conversation)) return say("I cannot summarise this conversation.")
  const prompt = withoutReminders(lastUserText(conversation))
  const found = findCommand(prompt)
  if (found === undefined) return greet(prompt)
  const { command, input } = found
  return "reply" in command ? command.reply() : useTool(command, input, conversation)
}

/** What the user wrote with a command. */
interface CommandInput {
  /** The rest of the command's line. */
  readonly argument: string
  /** The lines that follow it. */
  readonly below: string
}

interface ToolCommand {
  readonly pattern: RegExp
  readonly usage: string
  readonly help: string
  readonly tool: string
  /** The arguments of the tool calls, made one after the other. */
  readonly calls: (input: CommandInput, directory: string) => readonly Record<string, unknown>[]
  /** The text after the last result. */
  readonly close: (input: CommandInput, result: string) => string
}

interface ReplyCommand {
  readonly pattern: RegExp
  readonly usage: string
  readonly help: string
  readonly reply: () => Reply
}

const TODOS = ["Look around", "Do the work", "Report the result"]

const COMMANDS: readonly (ToolCommand | ReplyCommand)[] = [
  {
    pattern: /^run:\s*(\S.*)$/i,
    usage: "run: CMD",
    help: "runs a shell command in the sandbox",
    tool: "bash",
    calls: ({ argument }) => [{ command: argument, description: "Runs the user's command" }],
    close: ({ argument }, result) => `\`${argument}\` in the sandbox gave:\n\n${quote(result)}`,
  },
  {
    pattern: /^write:\s*(\S.*)$/i,
    usage: "write: FILE",
    help: "writes a file; the lines below are its content",
    tool: "write",
    calls: ({ argument, below }, directory) => [
      {
        filePath: isAbsolute(argument) ? argument : join(directory, argument),
        content: below === "" ? "Written by the scripted demo model.\n" : `${below}\n`,
      },
    ],
    close: ({ argument }, result) =>
      `The write tool's result for \`${argument}\`:\n\n${quote(result)}`,
  },
  {
    pattern: bare("ask"),
    usage: "ask",
    help: "asks you a question with three options",
    tool: "question",
    calls: () => [
      {
        questions: [
          {
            question: "Which bird do you like best?",
            header: "Bird",
            options: [
              { label: "Sandpiper", description: "Runs along the edge of the waves" },
              { label: "Heron", description: "Stands still and waits" },
              { label: "Swift", description: "Hardly ever lands" },
            ],
          },
        ],
      },
    ],
    close: (_input, result) => `Your answer:\n\n${quote(result)}`,
  },
  {
    pattern: bare("plan"),
    usage: "plan",
    help: "creates three todos and ticks them off",
    tool: "todowrite",
    calls: () => [0, 1, 2, 3].map((done) => ({ todos: todosAfter(done) })),
    close: () => "The three todos are created and ticked off.",
  },
  {
    pattern: bare("think"),
    usage: "think",
    help: "streams some reasoning before the answer",
    reply: () =>
      reply(
        reasoning(
          ...streamed("A script does not think. It sends these lines, one after the other."),
        ),
        say("The reasoning was streamed before this answer."),
      ),
  },
  {
    pattern: bare("fail"),
    usage: "fail",
    help: "fails like a provider that refuses the request",
    reply: () =>
      httpError(400, { message: "the demo model was asked to fail", code: "demo_failure" }),
  },
]

/** Finds the last line that starts with a command; a channel may put lines with the author above the user's text. */
function findCommand(prompt: string) {
  const lines = prompt.split(/\r?\n/)
  for (const [index, line] of [...lines.entries()].toReversed()) {
    for (const command of COMMANDS) {
      const match = command.pattern.exec(line)
      if (match === null) continue
      const below = lines.slice(index + 1).join("\n")
      return { command, input: { argument: (match[1] ?? "").trim(), below: below.trimEnd() } }
    }
  }
  return undefined
}

/** Each call has one result in the conversation, so the number of results tells which call is next. */
function useTool(
  command: ToolCommand,
  input: CommandInput,
  { messages, tools }: Conversation,
): StreamedReply {
  const lastPrompt = messages.findLastIndex(({ role }) => role === "user")
  const results = messages.slice(lastPrompt + 1).filter(({ role }) => role === "tool")
  const next = command.calls(input, workingDirectory(messages))[results.length]
  const last = results.at(-1)
  if (next === undefined) return say(command.close(input, last === undefined ? "" : textOf(last)))
  if (tools.some((offered) => offered.function.name === command.tool))
    return tool(command.tool, next)
  return say(
    `\`${command.usage}\` needs the tool \`${command.tool}\`, which is off in this session.`,
  )
}

/** From a line of OpenCode's system prompt; its `write` tool requires absolute paths. */
function workingDirectory(messages: Conversation["messages"]): string {
  for (const message of messages) {
    if (message.role !== "system") continue
    const line = /^\s*Working directory: (.+)$/m.exec(textOf(message))
    if (line?.[1] !== undefined) return line[1].trim()
  }
  return ""
}

function greet(prompt: string): StreamedReply {
  const commands = COMMANDS.map(({ usage, help }) => `- \`${usage}\` ${help}`).join("\n")
  const excerpt = shorten(withoutAttribution(prompt), 200)
  return say(
    `Hello! You said:\n\n${quote(excerpt)}\n\nStart a line with one of these commands:\n\n${commands}`,
  )
}

const say = (message: string): StreamedReply =>
  text(...streamed(`${message}\n\n_I am the scripted demo model, not an LLM._`))

/** Small chunks with a delay, so that streaming is visible. */
const streamed = (message: string): Parameters<typeof text> => [
  message,
  { chunks: Math.ceil(message.length / 12), delayMs: 15 },
]

const quote = (result: string): string => shorten(result.trim(), 800).replace(/^/gm, "> ")

const todosAfter = (done: number) =>
  TODOS.map((content, index) => ({
    content,
    status: index < done ? "completed" : index === done ? "in_progress" : "pending",
    priority: "medium",
  }))

function bare(name: string): RegExp {
  return new RegExp(`^${name}(?=$|[\\s:.,!?])`, "i")
}
