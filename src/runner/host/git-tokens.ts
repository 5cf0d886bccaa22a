/**
 * Passwords for git and `gh`: those of the settings, else short-lived tokens of the session agent. A token is kept in
 * memory only, and replaced before it expires, so that the program that gets it can still finish.
 */
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { type Credential, credentialFor, TOKEN_USER } from "./repository-rules.ts"

export interface IssuedToken {
  readonly token: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

export interface GitTokensOptions {
  /** The credentials of the settings; they take precedence. */
  readonly credentials: () => readonly Credential[]
  /** The origins for which the session agent is asked; none if it issues no tokens. */
  readonly issuedFor: () => readonly string[]
  readonly issue: (origin: string) => Promise<IssuedToken>
  readonly clock: Pick<Clock, "now">
  readonly log: Pick<Log, "warn" | "hide">
}

export interface GitTokens {
  readonly credentialFor: (asked: {
    readonly protocol: string
    readonly host: string
  }) => Promise<Credential | undefined>
}

/** A token that expires earlier than this is not given out any more. */
export const REFRESH_BEFORE_MS = 10 * 60_000

/** A token that lives shorter than twice that is replaced after half of its life. */
export const isFresh = (now: number, issuedAt: number, expiresAt: number): boolean =>
  now < expiresAt - Math.min(REFRESH_BEFORE_MS, (expiresAt - issuedAt) / 2)

interface Held extends IssuedToken {
  readonly issuedAt: number
}

export const createGitTokens = (options: GitTokensOptions): GitTokens => {
  const { clock, log } = options
  const held = new Map<string, Held>()
  /** One request per origin at a time: programs that ask meanwhile get its token. */
  const asking = new Map<string, Promise<string | undefined>>()

  const ask = async (origin: string): Promise<string | undefined> => {
    const issuedAt = clock.now()
    try {
      const { token, expiresAt } = await options.issue(origin)
      log.hide([token])
      if (expiresAt <= clock.now()) throw new Error("the issued token has expired already")
      held.set(origin, { token, expiresAt, issuedAt })
      return token
    } catch (error) {
      log.warn("git.no-token", { origin, error: describeError(error) })
      // The last one may still be valid for a while.
      const last = held.get(origin)
      return last !== undefined && clock.now() < last.expiresAt ? last.token : undefined
    } finally {
      asking.delete(origin)
    }
  }
  const tokenOf = (origin: string): Promise<string | undefined> => {
    const last = held.get(origin)
    if (last !== undefined && isFresh(clock.now(), last.issuedAt, last.expiresAt))
      return Promise.resolve(last.token)
    const running = asking.get(origin) ?? ask(origin)
    asking.set(origin, running)
    return running
  }
  return {
    credentialFor: async (asked) => {
      const known = credentialFor(options.credentials(), asked)
      if (known !== undefined) return known
      const origin = options
        .issuedFor()
        .find((one) => one === `${asked.protocol}://${asked.host.toLowerCase()}`)
      const password = origin === undefined ? undefined : await tokenOf(origin)
      return origin === undefined || password === undefined
        ? undefined
        : { origin, username: TOKEN_USER, password }
    },
  }
}
