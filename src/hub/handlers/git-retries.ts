/**
 * Retries changes of pull requests that the git host did not answer. They are effects of the shared store, which retries
 * them with backoff and writes the result, or the last failure, into the conversation.
 */
import { GitHostError } from "./git-api.ts"
import type { GitHost } from "./git-host.ts"
import { type Caller, Refusal } from "./handler-table.ts"

export interface GitChange {
  readonly type: "create-pr" | "update-pr"
  readonly fields: Readonly<Record<string, unknown>>
}

const TRIED_AGAIN =
  "The hub tries again for about 40 minutes and writes the result into the conversation: do not repeat this call."

/** `store` keeps a change for later; the same caller is the same change. */
export const withGitRetries = (
  git: GitHost,
  store: (caller: Caller, change: GitChange) => void | Promise<void>,
): GitHost => {
  const orLater = async <Result>(
    change: GitChange,
    caller: Caller,
    run: () => Promise<Result>,
  ): Promise<Result> => {
    try {
      return await run()
    } catch (error) {
      if (!(error instanceof GitHostError) || !error.retryable) throw error
      await store(caller, change)
      throw new Refusal(`${error.message}. ${TRIED_AGAIN}`, { cause: error })
    }
  }
  return {
    ...git,
    "create-pr": (fields, caller) =>
      orLater({ type: "create-pr", fields: storable(fields) }, caller, () =>
        git["create-pr"](fields, caller),
      ),
    "update-pr": (fields, caller) =>
      orLater({ type: "update-pr", fields: storable(fields) }, caller, () =>
        git["update-pr"](fields, caller),
      ),
  }
}

/** A whole frame may be passed as the fields: its own type and id are not stored. */
const storable = (fields: object): Readonly<Record<string, unknown>> => {
  const { type: _type, requestId: _id, seq: _seq, ...rest } = fields as Record<string, unknown>
  return rest
}

/** Carries out a stored change and returns the line for the conversation. */
export const applyGitChange = async (
  git: GitHost,
  { type, fields }: GitChange,
  caller: Caller,
): Promise<string> => {
  // Stored by `withGitRetries` with the fields of this request.
  const { number, url, title, ...rest } = await git[type](fields as never, caller)
  // An earlier attempt whose response was lost has opened it, if it has the wanted title.
  if ("existed" in rest && title !== fields["title"])
    return `The branch has the open pull request #${number} "${title}" already, which was found after a retry and not changed: ${url}`
  const what = type === "create-pr" ? "is open" : "is changed"
  return `The pull request #${number} "${title}" ${what} after a retry: ${url}`
}
