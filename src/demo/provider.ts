/** OpenCode config for a chat-completions server as its only provider. */

interface ProviderOptions {
  readonly id: string
  readonly name: string
  readonly url: string
  readonly apiKey: string
  /** Model ids and their names; the first is the default model. */
  readonly models: Readonly<Record<string, string>>
  /** The model id for titles. */
  readonly smallModel: string
}

/** To be merged into OpenCode's config; disables all other providers. */
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
