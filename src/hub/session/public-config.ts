/** What clients see of the agent's config: no key, no token and no address that may contain one. */
import type { AgentConfig } from "./rows.ts"

export const publicConfig = (config: AgentConfig) => ({
  /** Providers that have a key. */
  keys: Object.fromEntries(Object.keys(config.providerKeys ?? {}).map((name) => [name, true])),
  instructions: config.instructions ?? [],
  tools: config.tools ?? {},
  mcp: Object.keys(config.mcpServers ?? {}),
  providers: (config.customProviders ?? []).map(({ providerId, displayName, apiKey, models }) => ({
    id: providerId,
    name: displayName,
    hasKey: apiKey !== undefined,
    models: models.map(({ id }) => id),
  })),
})
