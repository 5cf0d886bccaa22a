/** A first session that leaves recognizable texts wherever a runner keeps something, and what the next session has of them. */
import { readdirSync, readFileSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { signControlToken } from "../../src/lib/control-token.ts"
import { text, tool, waitFor, reply, type ScriptedModel } from "./model.ts"
import { startTestSessionAgent, type TestSessionAgent } from "./session-agent.ts"
import { untilTrue } from "./until-true.ts"

/** Each occurs in the first session only. */
export const canary = {
  session: "canary-01-session",
  prompt: "canary-02-prompt",
  answer: "canary-03-answer",
  title: "canary-04-title",
  toolCommand: "canary-05-command",
  toolOutput: "canary-06-output",
  messageId: "canary-07-message",
  channel: "canary-08-channel",
  runnerToken: "canary-09-runner-token",
  gatewayKey: "canary-10-gateway-key",
  gitPassword: "canary-11-git-password",
  fileName: "canary-12-file.txt",
  fileContent: "canary-13-content",
  shellHistory: "canary-14-history",
  storedPassword: "canary-15-stored-password",
  serviceLog: "canary-16-service-log",
  authorName: "canary-17-author",
  authorEmail: "canary-18@example.com",
  persona: "canary-19-persona",
  instructions: "canary-20-instructions",
  lateAnswer: "canary-21-late-answer",
} as const

const PREFIX = "canary-"

/** Every canary in the bytes of a text or a file. */
const canariesIn = (bytes: string | Buffer): readonly string[] =>
  bytes.includes(PREFIX) ? Object.values(canary).filter((one) => bytes.includes(one)) : []

/** "file: canary" for everything that the disk has of the first session; names of files count, too. */
export const canariesOn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((one) => {
    const path = join(one.parentPath, one.name)
    const content = one.isFile() ? canariesIn(readFileSync(path)) : []
    return [...canariesIn(one.name), ...content].map((found) => `${path}: ${found}`)
  })

export const canariesInFrames = ({ frames, hellos }: TestSessionAgent): readonly string[] =>
  canariesIn(JSON.stringify([frames, hellos]))

export const environmentOfFirst = (agent: TestSessionAgent): Record<string, string> => ({
  SESSION_ID: canary.session,
  DO_WS_URL: agent.url,
  RUNNER_TOKEN: agent.token,
  JWT_SECRET: canary.gatewayKey,
  PERSONA_FILES_JSON: JSON.stringify([{ filename: "01-a.md", content: canary.persona }]),
})

export const agentOfFirst = (config: Parameters<typeof startTestSessionAgent>[0]) =>
  startTestSessionAgent({ ...config, token: canary.runnerToken })

const bash = (command: string) => tool("bash", { command, description: canary.toolCommand })

export const scriptFirst = (model: ScriptedModel, gate: Promise<void>): void => {
  const write = `echo ${canary.fileContent} > ${canary.fileName} && echo ${canary.serviceLog} > said.txt`
  model.on("first", [bash(`${write} && echo ${canary.toolOutput}`), text(canary.answer)])
  model.on("remove", [bash(`rm ${canary.fileName}`), text(canary.answer)])
  model.on("late", [reply(waitFor(gate), text(canary.lateAnswer))])
}

export interface FirstSession {
  readonly agent: TestSessionAgent
  readonly gatewayUrl: string
  readonly stateDir: string
  readonly home: string
}

/** Leaves all canaries but the last answer. Resolves when the turns are over and their frames are stored. */
export const liveFirst = async ({ agent, gatewayUrl, home }: FirstSession): Promise<void> => {
  await agent.frame("agentStatus", ({ status }) => status === "idle")
  agent.say({
    type: "git-credentials",
    token: canary.gitPassword,
    userName: canary.authorName,
    userEmail: canary.authorEmail,
  })
  await ask(agent, "first")
  await ask(agent, "remove")
  const token = await signControlToken({
    key: canary.gatewayKey,
    sessionId: canary.session,
    jti: crypto.randomUUID(),
    now: Date.now(),
  })
  const started = await fetch(`${gatewayUrl}/api/services`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    // The definition stays, so the word is in a file, which is removed before the word is in the log.
    body: JSON.stringify({
      name: "web",
      command: 'said=$(cat said.txt) && rm said.txt && echo "$said"; exec sleep 600',
    }),
  })
  if (!started.ok) throw new Error(`the service: ${started.status} ${await started.text()}`)
  await mkdir(home, { recursive: true })
  await Bun.write(join(home, ".bash_history"), canary.shellHistory)
  await Bun.write(join(home, ".git-credentials"), canary.storedPassword)
}

const ask = async (agent: TestSessionAgent, script: string): Promise<void> => {
  const messageId = `${canary.messageId}-${script}`
  sayPrompt(agent, script)
  await agent.frame(
    "agentStatus",
    (frame) => frame.status === "idle" && frame.messageId === messageId,
  )
}

const sayPrompt = (agent: TestSessionAgent, script: string): void =>
  agent.say({
    type: "prompt",
    messageId: `${canary.messageId}-${script}`,
    content: `@@${script}@@ ${canary.prompt}`,
    channelType: "test",
    channelId: canary.channel,
    authorName: canary.authorName,
    authorEmail: canary.authorEmail,
    gitName: canary.authorName,
    gitEmail: canary.authorEmail,
  })

/** One more turn, whose end the session agent does not hear of: its frames stay in the runner. */
export const endUnheard = async (
  { agent, stateDir }: FirstSession,
  open: () => void,
): Promise<void> => {
  sayPrompt(agent, "late")
  await agent.frame("agentStatus", (frame) => frame.messageId === `${canary.messageId}-late`)
  await agent.stop()
  open()
  const outbox = () => canariesOn(stateDir).some((one) => /state\.db(-wal)?: canary-21/.test(one))
  await untilTrue(outbox, "the last answer in the outbox")
}
