/**
 * Sends the runner what git uses for the session's owner: after every `hello`, and when a session of the warm pool gets
 * its owner. It goes from the host's configuration to the socket and is written nowhere.
 */
import type { Outbound } from "../../wire/frames/index.ts"
import type { SessionContext } from "./session-context.ts"

const FRAME = "git-credentials"

export interface RunnerGit {
  /** A connection begins: nothing is known about its runner. */
  readonly opened: () => void
  /** Inside the transaction of `hello`. */
  readonly greeted: (hello: Outbound<"hello">) => void
  /** The connected runner gets the credentials of the present owner. They leave before every later frame. */
  readonly send: () => void
  /** Whether the connected runner knows the frame. */
  readonly isAccepted: () => boolean
}

export const createRunnerGit = ({
  ports,
  values,
  commit,
  sendToRunner,
}: Pick<SessionContext, "ports" | "values" | "commit" | "sendToRunner">): RunnerGit => {
  let accepts = false
  /** A runner that another program has started has credentials of its own, or none. */
  const isAccepted = () => accepts && values.getPrivate("runner-of") === "fleet"
  const give = () => {
    const credentials = isAccepted() ? ports.gitCredentials?.() : undefined
    if (credentials) sendToRunner({ type: FRAME, ...credentials })
  }
  return {
    opened: () => {
      accepts = false
    },
    greeted: (hello) => {
      accepts = hello.accepts?.includes(FRAME) ?? false
      give()
    },
    send: () => commit(give),
    isAccepted,
  }
}
