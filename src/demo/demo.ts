/** The demo model: a scripted chat-completions server, which needs no key and no network. */
import { providerConfig } from "./provider.ts"
import { type ModelServer, startModelServer } from "./server.ts"
import { replyTo } from "./commands.ts"

export const startDemoModel = ({
  port = 0,
}: { readonly port?: number } = {}): Promise<ModelServer> =>
  startModelServer({ port, models: Object.keys(MODELS), respond: replyTo })

/** OpenCode config for the demo model at `url`. */
export const demoProvider = (url: string) =>
  providerConfig({
    id: "demo",
    name: "Demo model (scripted, not an LLM)",
    url,
    // The demo model checks no key, but OpenCode requires one.
    apiKey: "none",
    models: MODELS,
    smallModel: "demo-small",
  })

const MODELS = { "demo-1": "Demo 1 (scripted)", "demo-small": "Demo small (scripted)" }
