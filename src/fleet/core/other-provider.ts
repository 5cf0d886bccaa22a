/** Sessions whose sandboxes are at another provider than the one that this fleet uses now. Pure. */
import type { Answer } from "./life.ts"

/** Long: only a restart with the other provider changes it. */
const RETRY_MS = 60_000

/**
 * The answer to every call for such a session. The provider of now does not know its sandbox, which does not mean that the
 * sandbox is gone. Undefined: the session belongs to this provider.
 */
export const answerElsewhere = (
  stored: string,
  present: string,
): Extract<Answer, { is: "blocked" }> | undefined =>
  stored === present
    ? undefined
    : {
        is: "blocked",
        why: `the sandbox of this session is at the provider ${stored}, and this fleet runs with ${present}: start it with --provider ${stored}`,
        afterMs: RETRY_MS,
      }
