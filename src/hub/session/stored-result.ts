/** The result of a request as it is stored for a repeated request: without a secret that is shown once. */

const LOST_SECRET =
  "the secret was in the first result only; if it is lost, update the trigger with a new config.secret"

const EXPIRED_URLS = "the signed URLs were in the first result only; ask again"
const LOST_TOKEN = "the token was in the first result only: ask for another one"

/** The secret of a new webhook is stored nowhere but as a hash; tokens and signed URLs are not stored. */
export const storedResult = (
  type: string,
  result: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> => {
  if (type === "workspace-urls" && !Object.hasOwn(result, "error")) return { error: EXPIRED_URLS }
  if (type === "git-token" && "token" in result) return { error: LOST_TOKEN }
  const data = recordOf(result["data"])
  const trigger = recordOf(data["trigger"])
  if (type !== "trigger-api" || !Object.hasOwn(trigger, "secret")) return result
  const { secret: _secret, ...shown } = trigger
  return { ...result, data: { ...data, trigger: { ...shown, secretNote: LOST_SECRET } } }
}

const recordOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}
