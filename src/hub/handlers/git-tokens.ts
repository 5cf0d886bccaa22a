/**
 * The git host's token of an owner. GITHUB_TOKEN is the operator's and serves the operator's own sessions only; other
 * owners have entries in GITHUB_TOKENS, a JSON object from owner to token.
 */
import { z } from "zod"
import { LOCAL_OWNER, type Owner } from "../access/ownership.ts"

interface Environment {
  readonly GITHUB_TOKEN?: string | undefined
  readonly GH_TOKEN?: string | undefined
  readonly GITHUB_TOKENS?: string | undefined
}

const tokens = z.record(z.string(), z.string().min(1))

export const NO_TOKEN_OF_OWNER =
  "no git host is set up for the owner of this session: the operator adds a token to GITHUB_TOKENS, a JSON object from owner to token"

export const gitTokenOf = (environment: Environment, owner: Owner): string | undefined => {
  const own = ownToken(environment, owner)
  if (own !== undefined || owner !== LOCAL_OWNER) return own
  return environment.GITHUB_TOKEN || environment.GH_TOKEN || undefined
}

/** Text that is not such an object gives no owner a token: the operator's must not be used in its place. */
const ownToken = (environment: Environment, owner: Owner): string | undefined => {
  const text = environment.GITHUB_TOKENS
  if (!text) return undefined
  const parsed = tokens.safeParse(jsonOf(text))
  return parsed.success && Object.hasOwn(parsed.data, owner) ? parsed.data[owner] : undefined
}

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
