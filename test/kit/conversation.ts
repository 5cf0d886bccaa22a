/** A runner with a scripted model and a test session agent, and helpers to send prompts and read their frames. */
import { join } from "node:path"
import { execa } from "execa"
import type { DaemonOptions } from "../../src/runner/daemon-options.ts"
import type { Inbound, Outbound, OutboundFrame } from "../../src/wire/frames/index.ts"
import { type ScriptedModel, startScriptedModel } from "./model.ts"
import { type Sandbox, scriptedConfig, startRunner, type TestRunner } from "./runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "./session-agent.ts"

type AgentConfig = Inbound<"opencode-config">["config"]

export interface Conversation {
  readonly model: ScriptedModel
  readonly agent: TestSessionAgent
  readonly runner: TestRunner
  readonly say: (messageId: string, content: string, more?: Partial<Inbound<"prompt">>) => void
  /** Sends a prompt and waits for its end; resolves with every frame that carries its id. */
  readonly ask: (
    messageId: string,
    content: string,
    more?: Partial<Inbound<"prompt">>,
  ) => Promise<Answer>
  readonly ended: (messageId: string) => Promise<Answer>
  readonly stop: () => Promise<void>
}

export interface Answer {
  readonly frames: readonly OutboundFrame[]
  readonly of: <Type extends OutboundFrame["type"]>(type: Type) => readonly Outbound<Type>[]
  /** All text deltas of the answer, joined; without the words of sub-agents. */
  readonly text: string
  readonly final: Outbound<"message.finalize"> | undefined
}

export const answerOf = (agent: TestSessionAgent, messageId: string): Answer => {
  const frames = agent.frames.filter(
    (frame) => "messageId" in frame && frame.messageId === messageId,
  )
  const of: Answer["of"] = (type) =>
    frames.filter((frame): frame is Outbound<typeof type> => frame.type === type)
  const deltas = of("message.part.text-delta").flatMap(({ delta, childSessionId }) =>
    childSessionId === undefined ? [delta] : [],
  )
  return { frames, of, text: deltas.join(""), final: of("message.finalize").at(-1) }
}

const REPORTS: ReadonlySet<OutboundFrame["type"]> = new Set(["files-changed", "git-state", "title"])

/** The frames without reports of the workspace and titles, which come when they are ready, independent of all other frames. */
export const withoutReports = (frames: readonly OutboundFrame[]): readonly OutboundFrame[] =>
  frames.filter(({ type }) => !REPORTS.has(type))

export interface ConversationOptions extends Partial<DaemonOptions> {
  /** Added to the config that the scripted model needs. */
  readonly agentConfig?: AgentConfig
  /** Prepares the sandbox before the runner starts; the default creates a git repository. */
  readonly furnish?: (sandbox: Sandbox) => Promise<unknown>
}

export const startConversation = async (
  environment: Record<string, string> = {},
  { agentConfig = {}, furnish = makeRepository, ...daemon }: ConversationOptions = {},
): Promise<Conversation> => {
  const model = await startScriptedModel()
  const agent = startTestSessionAgent({ config: { ...scriptedConfig(model), ...agentConfig } })
  const runner = await startRunner(agent, environment, { furnish, ...daemon })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  const say: Conversation["say"] = (messageId, content, more = {}) =>
    agent.say({ type: "prompt", messageId, content, ...more })
  const ended = async (messageId: string): Promise<Answer> => {
    await agent.frame(
      "agentStatus",
      (frame) => frame.status === "idle" && frame.messageId === messageId,
    )
    return answerOf(agent, messageId)
  }
  return {
    model,
    agent,
    runner,
    say,
    ask: (messageId, content, more) => {
      say(messageId, content, more)
      return ended(messageId)
    },
    ended,
    stop: async () => {
      await runner.stop()
      await agent.stop()
      await model.stop()
    },
  }
}

/** `furnish` for a test that needs an empty workspace. */
export const leaveEmpty = async (): Promise<void> => {}

/** OpenCode tracks changes only in a repository that exists when it starts. */
export const makeRepository = async ({ workDir }: Pick<Sandbox, "workDir">): Promise<void> => {
  const git = (...args: readonly string[]) => execa("git", args, { cwd: workDir })
  await git("init", "-q")
  await Bun.write(join(workDir, "README.md"), "hello\n")
  await git("add", "-A")
  const author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
  await git(...author, "commit", "-q", "-m", "first")
}
