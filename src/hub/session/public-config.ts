/** What clients see of the agent's config: no key, no token, and of an address only the host, because the rest may contain one. */
import type { AgentConfig } from "./rows.ts"

export const publicConfig = (config: AgentConfig) => ({
  /** Providers that have a key. */
  keys: Object.fromEntries(Object.keys(config.providerKeys ?? {}).map((name) => [name, true])),
  instructions: config.instructions ?? [],
  tools: config.tools ?? {},
  mcp: Object.keys(config.mcpServers ?? {}),
  providers: (config.customProviders ?? []).map(
    ({ providerId, displayName, baseUrl, apiKey, models }) => ({
      id: providerId,
      name: displayName,
      host: hostOf(baseUrl),
      hasKey: apiKey !== undefined,
      models: models.map(({ id }) => id),
    }),
  ),
})

const hostOf = (address: string): string => (URL.canParse(address) ? new URL(address).host : "")
