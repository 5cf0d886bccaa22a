/** The real hub, the real runner with OpenCode and the scripted model, a client, and a proxy in the link between them. */
import type { LocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { startHubBeside } from "../hub/kit/local-hub.ts"
import { makeRepository } from "./conversation.ts"
import { type ScriptedModel, startScriptedModel } from "./model.ts"
import { createSandbox, type Sandbox, startRunner, type TestRunner } from "./runner.ts"
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts"

export interface HubConversation {
  readonly model: ScriptedModel
  readonly hub: LocalHub
  readonly client: TestClient
  readonly runner: TestRunner
  readonly sandbox: Sandbox
  /** Between the runner and the hub. */
  readonly proxy: TcpProxy
  /** Sends a prompt and returns its id. */
  readonly say: (content: string, channelId: string, more?: object) => Promise<string>
  /** Resolves with the answer's text when the prompt has ended. */
  readonly ended: (promptId: string) => Promise<string>
  readonly stop: () => Promise<void>
}

const SESSION = "test-session"

export const startHubConversation = async (
  environment: Record<string, string> = {},
): Promise<HubConversation> => {
  const model = await startScriptedModel()
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: RUNNER_TOKEN })
  await makeRepository(sandbox)
  const hub = await startHubBeside(sandbox, SESSION, model)
  const direct = new URL(hub.runnerUrl(SESSION))
  const proxy = await startTcpProxy(Number(direct.port))
  const link = { url: hub.runnerUrl(SESSION).replace(direct.host, `127.0.0.1:${proxy.port}`) }
  const runner = await startRunner({ ...link, token: RUNNER_TOKEN }, environment, { in: sandbox })
  const client = await connectClient(hub.url, CLIENT_TOKEN, { session: SESSION })
  const say: HubConversation["say"] = async (content, channelId, more = {}) => {
    const at = { channelType: "web", channelId }
    const { messageId } = await client.ask({ type: "prompt", content, ...at, ...more })
    return String(messageId)
  }
  const ended: HubConversation["ended"] = async (promptId) => {
    const isOpen = () => client.queue().some(({ id }) => id === promptId)
    const hasAnswer = () =>
      client.messages().some(({ role, promptId: of, status }) => {
        return role !== "user" && of === promptId && status !== "streaming"
      })
    await client.until(() => hasAnswer() && !isOpen(), `the end of ${promptId}`)
    return client.answerTo(promptId)
  }
  return {
    model,
    hub,
    client,
    runner,
    sandbox,
    proxy,
    say,
    ended,
    stop: async () => {
      client.close()
      await runner.stop()
      await proxy.stop()
      await hub.stop()
      await model.stop()
    },
  }
}
