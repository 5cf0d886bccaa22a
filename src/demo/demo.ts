/** The demo model: everything around it is real, only the model is a script, so it needs no key and no network. */
import { providerConfig } from "./provider.ts"
import { type ModelServer, startModelServer } from "./server.ts"
import { answer } from "./commands.ts"

export const startDemoModel = ({
  port = 0,
}: { readonly port?: number } = {}): Promise<ModelServer> =>
  startModelServer({ port, models: Object.keys(MODELS), respond: answer })

/** Configures OpenCode to talk to the demo model that is served at `url`. */
export const demoProvider = (url: string) =>
  providerConfig({
    id: "demo",
    name: "Demo model (scripted, not an LLM)",
    url,
    // The demo model asks for no key, but OpenCode wants a provider to have one.
    apiKey: "none",
    models: MODELS,
    smallModel: "demo-small",
  })

const MODELS = { "demo-1": "Demo 1 (scripted)", "demo-small": "Demo small (scripted)" }
