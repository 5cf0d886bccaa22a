/** The words the demo model knows, and its answer to a conversation: pure, and never more than a script. */
import { isAbsolute, join } from "node:path"
import { isSummaryRequest, isTitleRequest, titleOf } from "./opencode-requests.ts"
import { shorten, withoutAttribution, withoutReminders } from "./excerpt.ts"
import { httpError, reasoning, type Reply, reply, type StreamedReply, text, tool } from "./reply.ts"
import { type Conversation, lastUserText, textOf } from "./request.ts"

export function answer(conversation: Conversation): Reply {
  if (isTitleRequest(conversation)) return text(titleOf(conversation))
  if (isSummaryRequest(conversation)) return say("I cannot summarise what was said before.")
  const said = withoutReminders(lastUserText(conversation))
  const found = findWord(said)
  if (found === undefined) return greet(said)
  const { word, spoken } = found
  return "reply" in word ? word.reply() : useTool(word, spoken, conversation)
}

/** What the user wrote with a word. */
interface Spoken {
  /** The rest of the word's line. */
  readonly argument: string
  /** The lines that follow it. */
  readonly below: string
}

interface ToolWord {
  readonly pattern: RegExp
  readonly usage: string
  readonly help: string
  readonly tool: string
  /** The arguments of the calls to make one after the other, each after the result of the one before. */
  readonly calls: (spoken: Spoken, directory: string) => readonly Record<string, unknown>[]
  /** What to say after the last result. */
  readonly close: (spoken: Spoken, result: string) => string
}

interface PlainWord {
  readonly pattern: RegExp
  readonly usage: string
  readonly help: string
  readonly reply: () => Reply
}

const TODOS = ["Look around", "Do the work", "Say what was done"]

const WORDS: readonly (ToolWord | PlainWord)[] = [
  {
    pattern: /^run:\s*(\S.*)$/i,
    usage: "run: CMD",
    help: "runs a shell command in the sandbox",
    tool: "bash",
    calls: ({ argument }) => [{ command: argument, description: "Runs what the user typed" }],
    close: ({ argument }, result) => `\`${argument}\` in the sandbox gave:\n\n${quote(result)}`,
  },
  {
    pattern: /^write:\s*(\S.*)$/i,
    usage: "write: FILE",
    help: "writes a file; its content goes on the lines below",
    tool: "write",
    calls: ({ argument, below }, directory) => [
      {
        filePath: isAbsolute(argument) ? argument : join(directory, argument),
        content: below === "" ? "Written by the scripted demo model.\n" : `${below}\n`,
      },
    ],
    close: ({ argument }, result) => `The tool says of \`${argument}\`:\n\n${quote(result)}`,
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
    close: (_spoken, result) => `You answered.\n\n${quote(result)}`,
  },
  {
    pattern: bare("plan"),
    usage: "plan",
    help: "makes a list of three todos and ticks them off",
    tool: "todowrite",
    calls: () => [0, 1, 2, 3].map((done) => ({ todos: todosAfter(done) })),
    close: () => "The three todos are made and ticked off.",
  },
  {
    pattern: bare("think"),
    usage: "think",
    help: "streams some reasoning before the answer",
    reply: () =>
      reply(
        reasoning(
          ...streamed("A script does not think. It plays these lines, one after the other."),
        ),
        say("That was my reasoning, streamed apart from this answer."),
      ),
  },
  {
    pattern: bare("fail"),
    usage: "fail",
    help: "fails, as a provider does that refuses a request",
    reply: () =>
      httpError(400, { message: "the demo model was asked to fail", code: "demo_failure" }),
  },
]

/** At the start of any line, for the user's text may stand below lines that say who wrote it; the last one counts. */
function findWord(said: string) {
  const lines = said.split(/\r?\n/)
  for (const [index, line] of [...lines.entries()].toReversed()) {
    for (const word of WORDS) {
      const match = word.pattern.exec(line)
      if (match === null) continue
      const below = lines.slice(index + 1).join("\n")
      return { word, spoken: { argument: (match[1] ?? "").trim(), below: below.trimEnd() } }
    }
  }
  return undefined
}

/** Each call has one result in the conversation, so their number says which call comes next. */
function useTool(word: ToolWord, spoken: Spoken, { messages, tools }: Conversation): StreamedReply {
  const asked = messages.findLastIndex(({ role }) => role === "user")
  const results = messages.slice(asked + 1).filter(({ role }) => role === "tool")
  const next = word.calls(spoken, workingDirectory(messages))[results.length]
  const last = results.at(-1)
  if (next === undefined) return say(word.close(spoken, last === undefined ? "" : textOf(last)))
  if (tools.some((offered) => offered.function.name === word.tool)) return tool(word.tool, next)
  return say(`\`${word.usage}\` needs the tool \`${word.tool}\`, which is off here.`)
}

/** OpenCode's system prompt has a line for it; its `write` tool wants absolute paths. */
function workingDirectory(messages: Conversation["messages"]): string {
  for (const message of messages) {
    if (message.role !== "system") continue
    const line = /^\s*Working directory: (.+)$/m.exec(textOf(message))
    if (line?.[1] !== undefined) return line[1].trim()
  }
  return ""
}

function greet(said: string): StreamedReply {
  const words = WORDS.map(({ usage, help }) => `- \`${usage}\` ${help}`).join("\n")
  const heard = shorten(withoutAttribution(said), 200)
  return say(`Hello! You said:\n\n${quote(heard)}\n\nStart a line with one of these:\n\n${words}`)
}

const say = (words: string): StreamedReply =>
  text(...streamed(`${words}\n\n_I am the scripted demo model, not an LLM._`))

/** In pieces small and slow enough to see them come. */
const streamed = (words: string): Parameters<typeof text> => [
  words,
  { chunks: Math.ceil(words.length / 12), delayMs: 15 },
]

const quote = (result: string): string => shorten(result.trim(), 800).replace(/^/gm, "> ")

const todosAfter = (done: number) =>
  TODOS.map((content, index) => ({
    content,
    status: index < done ? "completed" : index === done ? "in_progress" : "pending",
    priority: "medium",
  }))

function bare(word: string): RegExp {
  return new RegExp(`^${word}(?=$|[\\s:.,!?])`, "i")
}
