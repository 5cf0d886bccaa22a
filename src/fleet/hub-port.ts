/** What the fleet needs of the hub, which is in the same process or behind signed HTTP requests. */
import type { SessionActivity } from "../hub/session/ports.ts"

export interface RunnerAdmission {
  /** The WebSocket URL for the session's runner. */
  readonly runnerUrl: string
  /** The key that the sandbox's gateway checks; undefined if the hub has none to give. */
  readonly gatewayKey: string | undefined
}

export interface HubPort {
  /** From now on only the runner with this token and generation may connect. */
  readonly admitRunner: (
    session: string,
    generation: number,
    tokenHash: string,
  ) => Promise<RunnerAdmission>
  /** The key that the gateway of this sandbox checks; undefined if the hub has none to give. */
  readonly gatewayKey: (session: string, generation: number) => Promise<string | undefined>
  /** A line in the conversation. A repeated id changes nothing. */
  readonly note: (session: string, id: string, text: string) => Promise<void>
  /** Makes the session if it does not exist. Answers with the generation of its last sandbox; 0: it had none. */
  readonly open: (session: string, owner: string) => Promise<number>
  /** Makes a session for the warm pool. It has no owner, and no person reaches it. */
  readonly reserve: (session: string) => Promise<void>
  /** Gives a session of the warm pool to its owner. `creator`: the person who made it. A repeated call changes nothing. */
  readonly handOver: (session: string, owner: string, creator?: string) => Promise<void>
  /** The session's runner is connected and takes git credentials of its owner, which the hub then sends with `handOver`. */
  readonly takesGitCredentials: (session: string) => Promise<boolean>
  /** Queues a prompt. A repeated message id changes nothing; with another text it is refused. */
  readonly prompt: (session: string, messageId: string, content: string) => Promise<void>
  /** Stops what the agent does; what is queued for it is withdrawn. */
  readonly stop: (session: string) => Promise<void>
  /** Ends the session: it takes no prompt any more. */
  readonly end: (session: string, why: string) => Promise<void>
}

/** What the hub reports about a session, repeated until the fleet has stored it. */
export interface HubReport {
  readonly session: string
  readonly owner: string
  readonly activity: SessionActivity
}

/** The hub did not answer, or not in time: what was asked may have been done. */
export class HubAway extends Error {
  override readonly name = "HubAway"
}

/** The hub answered that it cannot do this, now or later. */
export class HubRefusal extends Error {
  override readonly name = "HubRefusal"
}
