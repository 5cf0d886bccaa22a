/** The part of OpenCode's configuration that points it at a chat-completions server. */

interface ProviderOptions {
  readonly id: string
  readonly name: string
  readonly url: string
  readonly apiKey: string
  /** Model ids and their names; the first is the default model. */
  readonly models: Readonly<Record<string, string>>
  /** The model id that titles are asked of. */
  readonly smallModel: string
}

/** Merged into OpenCode's configuration, this alone makes it talk to the server and to nobody else. */
export function providerConfig({ id, name, url, apiKey, models, smallModel }: ProviderOptions) {
  const entries = Object.entries(models).map(([model, label]) => [
    model,
    {
      name: label,
      attachment: true,
      reasoning: true,
      tool_call: true,
      limit: { context: 128_000, output: 8_192 },
      modalities: { input: ["text", "image"], output: ["text"] },
    },
  ])
  return {
    model: `${id}/${Object.keys(models)[0]}`,
    small_model: `${id}/${smallModel}`,
    enabled_providers: [id],
    provider: {
      [id]: {
        npm: "@ai-sdk/openai-compatible",
        name,
        options: { baseURL: url, apiKey },
        models: Object.fromEntries(entries),
      },
    },
  }
}
