/** The limit of wrong secrets per network address, the same at every door of the hub and the fleet. A right secret always passes. */
import { RETRY_AFTER_SECONDS } from "../../lib/failed-attempts.ts"
import { errorResponse } from "../http-responses.ts"
import type { Authentication } from "./authenticate.ts"

/** Counts a wrong secret of an address; true when the address has sent too many. */
export type WrongSecrets = (address: string) => boolean | Promise<boolean>

const MESSAGE = "too many wrong secrets came from this address: try again later"

export const tooManyWrongSecrets = (): Response => errorResponse(429, MESSAGE, RETRY_AFTER_SECONDS)

/** Counts a token that is not valid. A request without a token has guessed nothing. */
export const limitAuthentication = async (
  failed: WrongSecrets,
  address: string | undefined,
  token: string,
  authentication: Authentication,
): Promise<Authentication> => {
  if (authentication.ok || authentication.status !== 401 || token === "") return authentication
  if (!(await failed(address ?? ""))) return authentication
  return { ok: false, status: 429, message: MESSAGE }
}

/** How a webhook refuses: a guess of a trigger's id is a wrong secret, too. */
export const HOOK_REFUSALS = [401, 404]

/** Counts a response that refuses a secret. */
export const limitResponse = async (
  failed: WrongSecrets,
  address: string | undefined,
  response: Response,
  wrong: readonly number[] = [401],
): Promise<Response> =>
  wrong.includes(response.status) && (await failed(address ?? ""))
    ? tooManyWrongSecrets()
    : response

/** How a refused token is answered. */
export const refusedAuthentication = ({
  status,
  message,
}: Extract<Authentication, { ok: false }>): Response =>
  errorResponse(status, message, status === 429 ? RETRY_AFTER_SECONDS : undefined)
