/** Carries the API's requests and notifications over the link, with failed requests as HTTP statuses. */
import { RequestError, type RequestFailure } from "../link/pending-requests.ts"
import type { Link } from "../link/link.ts"
import { ApiError } from "./api-error.ts"
import type { ApiPorts } from "./api.ts"

const statuses = {
  refused: [502, "refused"],
  timeout: [504, "unanswered"],
  offline: [503, "offline"],
  closing: [503, "closing"],
} as const satisfies Record<RequestFailure, readonly [number, string]>

/**
 * The API has validated the fields with the schema of the request; here the type is only a string. `sandboxFields` are
 * fields that the sandbox knows and the agent does not give.
 */
export const requestOverLink =
  (
    request: Link["request"],
    sandboxFields: (type: string) => Promise<object>,
  ): ApiPorts["request"] =>
  async (type, fields, { sessionId }) => {
    try {
      const known = { ...(await sandboxFields(type)), opencodeSessionId: sessionId }
      return await request(type as never, { ...fields, ...known } as never)
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      const [status, code] = statuses[error.failure]
      throw new ApiError(status, code, error.message)
    }
  }

export interface NotifyPorts {
  readonly send: Link["send"]
  /** The prompt and the channel that an agent session works for. */
  readonly originOf: (sessionId: string) => Readonly<Record<string, string>> | undefined
  /** The agent has declared the session's work complete. */
  readonly onCompleted: () => void
}

/** The API has validated the fields. A screenshot is sent to the channel of the tool that took it. */
export const notifyOverLink =
  ({ send, originOf, onCompleted }: NotifyPorts): ApiPorts["notify"] =>
  (type, fields, { sessionId, callId }) => {
    const isImage = type === "screenshot"
    const origin = isImage && sessionId ? originOf(sessionId) : undefined
    const call = isImage && callId !== undefined ? { callId } : {}
    send({ type, ...origin, ...call, ...fields } as never)
    if (type === "self-terminate") onCompleted()
  }
