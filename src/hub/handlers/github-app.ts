/**
 * Short-lived tokens of a GitHub App. The App's key stays in the hub; a sandbox gets a token of one hour for its own
 * repositories. Each owner has its own installation: an owner without one gets no token.
 */
import { importPKCS8, SignJWT } from "jose"
import { z } from "zod"
import type { Owner } from "../access/ownership.ts"
import { answeredWith, GitHostError } from "./git-api.ts"
import type { IssueToken } from "./git-host.ts"
import { Refusal } from "./handler-table.ts"

interface Environment {
  readonly GITHUB_APP_ID?: string | undefined
  /** PEM, PKCS#8 (`BEGIN PRIVATE KEY`). */
  readonly GITHUB_APP_PRIVATE_KEY?: string | undefined
  /** JSON object from owner to the number of its installation. */
  readonly GITHUB_APP_INSTALLATIONS?: string | undefined
  readonly GITHUB_API_URL?: string | undefined
  /** Where git clones from; default: https://github.com, or the host of GITHUB_API_URL. */
  readonly GITHUB_SERVER_URL?: string | undefined
}

const DEFAULT_API = "https://api.github.com"
const DEFAULT_ORIGIN = "https://github.com"
const TIMEOUT_MS = 10_000
/** GitHub accepts ten minutes at most, and a clock that is a minute ahead. */
const JWT_SECONDS = 540
const CLOCK_SKEW_SECONDS = 60

const installations = z.record(z.string(), z.union([z.string(), z.number()]).transform(String))
const issued = z.object({ token: z.string().min(1), expires_at: z.string() })

/** Undefined if no App is set up, or if the owner has no installation of it. */
export const githubAppOf = (
  environment: Environment,
  owner: Owner,
  now: () => number,
): IssueToken | undefined => {
  const { GITHUB_APP_ID: app, GITHUB_APP_PRIVATE_KEY: key, GITHUB_API_URL } = environment
  const installation = installationOf(environment.GITHUB_APP_INSTALLATIONS, owner)
  if (!app || !key || installation === undefined) return undefined
  const apiUrl = GITHUB_API_URL || DEFAULT_API
  const serverUrl = apiUrl === DEFAULT_API ? DEFAULT_ORIGIN : apiUrl
  const served = new URL(environment.GITHUB_SERVER_URL || serverUrl).origin
  return async (origin, repositories) => {
    if (origin !== served) throw new Refusal(`git tokens are issued for ${served} only`)
    const response = await fetch(`${apiUrl}/app/installations/${installation}/access_tokens`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${await appToken(app, key, now())}`,
        Accept: "application/vnd.github+json",
        "Content-Type": "application/json",
        "User-Agent": "sandpiper",
      },
      body: JSON.stringify({ repositories: repositories.map(nameIn) }),
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch((error: unknown) => {
      throw new GitHostError(`the git host cannot be reached: ${String(error)}`, true)
    })
    if (!response.ok) throw answeredWith(response.status, { message: "no token was issued" })
    const { token, expires_at } = issued.parse(await response.json())
    return { token, expiresAt: Date.parse(expires_at) }
  }
}

const nameIn = (fullName: string): string => fullName.slice(fullName.indexOf("/") + 1)

const installationOf = (text: string | undefined, owner: Owner): string | undefined => {
  if (!text) return undefined
  const parsed = installations.safeParse(jsonOf(text))
  const found = parsed.success && Object.hasOwn(parsed.data, owner) ? parsed.data[owner] : undefined
  return found !== undefined && /^\d+$/.test(found) ? found : undefined
}

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const appToken = async (app: string, key: string, now: number): Promise<string> => {
  const seconds = Math.floor(now / 1000)
  const signer = await importPKCS8(key.replaceAll("\\n", "\n"), "RS256").catch(() => {
    throw new Refusal(
      "GITHUB_APP_PRIVATE_KEY is not a PKCS#8 key: convert it with `openssl pkcs8 -topk8 -nocrypt`",
    )
  })
  return new SignJWT({})
    .setProtectedHeader({ alg: "RS256" })
    .setIssuer(app)
    .setIssuedAt(seconds - CLOCK_SKEW_SECONDS)
    .setExpirationTime(seconds + JWT_SECONDS)
    .sign(signer)
}
